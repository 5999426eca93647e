"""`kubectl di` for krew: an archive of the command, and the manifest that names it.

Our packages are in the archive; what they need is fetched by pip, held to the checksums of the lock
beside them, when the command is used first. So one archive does for all platforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from tools.release.archive import pack
from tools.release.provenance import sha256

PACKAGE: Final = "di-cli"
_COMMAND: Final = "kubectl-di"
_DESCRIPTION: Final = """\
Submit, list, watch and scale DIJobs, reinforcement-learning training jobs on Kubernetes; read the
logs of all their pods together; and ask why one does not run: kubectl di why NAME.
"""
_CAVEATS: Final = """\
It needs Python 3.11.2 or newer. When it is used first, pip fetches what it needs into the folder of
the plugin.
"""


def archive(
    root: Path, directory: Path, *, version: str, wheels: Sequence[Path], needed: str
) -> Path:
    """Pack the command.

    Args:
        root: the root of the repository.
        directory: where the archive goes.
        version: of the release.
        wheels: those of `PACKAGE` and what it needs of ours.
        needed: what it needs of others, as pip reads it.
    """
    return pack(
        directory / f"{_COMMAND}-{version}.tar.gz",
        {
            _COMMAND: root / "tools/release/kubectl_di.py",
            "LICENSE": root / "LICENSE",
            "requirements.lock": needed.encode(),
            **{f"wheels/{file.name}": file for file in wheels},
        },
        programs=[_COMMAND],
    )


def manifest(packed: Path, *, version: str, url: str) -> str:
    """What krew reads.

    Args:
        packed: the archive.
        version: of the release.
        url: the folder that the archive is published in.
    """
    systems = {"key": "os", "operator": "In", "values": ["linux", "darwin"]}
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "di"},
            "spec": {
                "version": f"v{version}",
                "homepage": url,
                "shortDescription": "Reinforcement-learning training jobs",
                "description": _DESCRIPTION,
                "caveats": _CAVEATS,
                "platforms": [
                    {
                        "selector": {"matchExpressions": [systems]},
                        "uri": f"{url}/{packed.name}",
                        "sha256": sha256(packed),
                        "bin": _COMMAND,
                    }
                ],
            },
        },
        sort_keys=False,
    )
