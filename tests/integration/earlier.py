"""The product as it was at a commit, built from the history and run beside the present one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.integration.conftest import CRD_FILE, definition
from tools.prepare.versions import BEFORE_LENIENCY, DEFINITIONS, PACKAGES, sources

PRESENT: Final = "present"
"""Name of what is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version: the variables that run its services in this environment, and its definition."""

    name: str
    definition: dict[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)


def present_version() -> Version:
    """What is installed."""
    return Version(name=PRESENT, definition=definition())


def earlier_version(commit: str = BEFORE_LENIENCY) -> Version:
    """A version of the history; its sources are kept beside the binaries, by commit."""
    folder = sources(commit)
    paths = os.pathsep.join(str(folder / package) for package in PACKAGES.values())
    environment = {"PYTHONPATH": paths}
    _check_found(folder, environment)
    then = yaml.safe_load((folder / DEFINITIONS / CRD_FILE.name).read_text())
    return Version(name="earlier", definition=then, environment=environment)


def _check_found(folder: Path, environment: Mapping[str, str]) -> None:
    """An environment that found the present packages first would test nothing."""
    code = "import importlib.util as u, sys; [print(u.find_spec(n).origin) for n in sys.argv[1:]]"
    found = subprocess.run(
        [sys.executable, "-c", code, *PACKAGES],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(Path(line).is_relative_to(folder) for line in found.stdout.splitlines()), found
