"""What each thing that is released installs: its part of `uv.lock`, as uv writes it out."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from uv import find_uv_bin

_SECONDS: Final = 60
RELEASED: Final = {
    "di-webhook": (),
    "di-operator": ("tracing",),
    "di-server": ("tracing",),
    "di-history": (),
    "di-dashboard": ("shared",),
    "di-orchestrator": ("cli", "local"),
    "di-cli": (),
}
"""Each package that is released, and the extras that are installed with it."""


def requirements(root: Path, name: str) -> str:
    """Return what a package of `RELEASED` needs of others, as pip reads it, with all hashes."""
    return _export(root, name, "--format", "requirements.txt", "--no-emit-workspace")


def bill(root: Path, name: str) -> str:
    """Return the bill of materials of a package of `RELEASED`: CycloneDX in JSON."""
    return _export(root, name, "--format", "cyclonedx1.5", "--preview-features", "sbom-export")


def _export(root: Path, name: str, *options: str) -> str:
    extras = [option for extra in RELEASED[name] for option in ("--extra", extra)]
    command = [find_uv_bin(), "export", "--quiet", "--frozen", "--no-dev", "--no-header"]
    done = subprocess.run(
        [*command, "--no-annotate", "--package", name, *extras, *options],
        cwd=root,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=_SECONDS,
    )
    return done.stdout
