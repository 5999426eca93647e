"""What is in an image or behind a wheel: bills of materials in CycloneDX, as uv writes them.

They name the Python packages. What the base of an image brings is for the base image to say.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any, Final

from tools.release.requirements import RELEASED, bill

_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "urn:di-orchestrator:sbom")


def sboms(root: Path) -> dict[str, dict[str, Any]]:
    """Return the bills of all that is released, by name; the same for the same sources."""
    return {name: _reproducible(json.loads(bill(root, name))) for name in RELEASED}


def _reproducible(found: dict[str, Any]) -> dict[str, Any]:
    """The bill without the time at which it was written, its serial number made from the rest."""
    del found["metadata"]["timestamp"], found["serialNumber"]
    text = json.dumps(found, sort_keys=True)
    return {**found, "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, text)}"}
