"""Python packages of other systems, each in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.benchmarks.processes import ROOT

_FOLDER = ROOT / "out/bench/first_job"


def environment_with(requirement: str) -> Path:
    """Return the folder with the programs of an environment that has a package; it is made once.

    Raises subprocess.CalledProcessError if the package index has no such package.
    """
    folder = _FOLDER / requirement
    programs = folder / "bin"
    if not (folder / "whole").exists():
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "venv", "--quiet", "--clear", folder], check=True)
        install = ("pip", "install", "--quiet", "--python", programs / "python", requirement)
        subprocess.run([uv, *install], check=True)
        (folder / "whole").touch()
    return programs
