"""What is in an image or behind a wheel: bills of materials in CycloneDX 1.6, from the locks.

They name the Python packages. What the base of an image brings is for the base image to say.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tools.release.wheels import packages

_PIN: Final = re.compile(r"(?m)^([A-Za-z0-9._-]+)==([^ \\;\n]+)[ ]*(?:; ([^\\\n]*?))?[ ]*\\?$")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "urn:di-orchestrator:sbom")
LOCKS: Final = {
    **{
        f"di-{name}": f"services/{name}/requirements.lock"
        for name in ("webhook", "operator", "server", "history")
    },
    "di-dashboard": "dashboard/requirements.lock",
    "di-orchestrator": "local/requirements.lock",
    "di-cli": "cli/requirements.lock",
}
"""Each thing that is released, and where its dependencies are pinned."""


def pinned(lock: str) -> Iterator[dict[str, Any]]:
    """The packages of a lock as components, with the checksums that pip holds them to.

    A package has one for each of its files, so they stand at its distribution and not at itself.
    """
    pins = list(_PIN.finditer(lock))
    for pin, following in zip(pins, [*pins[1:], None], strict=True):
        name, version, marker = pin.groups()
        part = lock[pin.end() : following.start() if following else len(lock)]
        yield _component(name, version) | {
            "externalReferences": [
                {
                    "type": "distribution",
                    "url": f"pkg:pypi/{name}@{version}",
                    "hashes": [{"alg": "SHA-256", "content": each} for each in _HASH.findall(part)],
                }
            ],
            **({"properties": [{"name": "di:marker", "value": marker}]} if marker else {}),
        }


def _component(name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def sbom(name: str, version: str, *, ours: Iterable[str], lock: str) -> dict[str, Any]:
    """The bill of one thing; the same for the same sources.

    Args:
        name: of what is released.
        version: its version, and that of `ours`.
        ours: the packages of this repository in it.
        lock: the text of its lock.
    """
    own = [
        _component(each, version) | {"licenses": [{"license": {"id": "Apache-2.0"}}]}
        for each in ours
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, f'{name}@{version}{lock}')}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": name,
                "name": name,
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [*own, *pinned(lock)],
    }


def sboms(root: Path, version: str) -> dict[str, dict[str, Any]]:
    """The bills of all that is released, by name."""
    return {
        name: sbom(name, version, ours=packages(root, name), lock=(root / file).read_text())
        for name, file in LOCKS.items()
    }
