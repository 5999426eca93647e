"""The product as it was at a commit, built from the history and run beside the present one."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from di_cluster.settings import Settings
from tests.integration.conftest import CRD_FILE, ROOT

BEFORE_LENIENCY = "604a3dbae60dd28522adb2fbd014270da22c1029"
"""The last version whose operator judged jobs that run."""

_PACKAGES = {
    "di_api": "services/api/src",
    "di_certs": "certs/src",
    "di_operator": "services/operator/src",
    "di_server": "services/server/src",
    "di_webhook": "services/webhook/src",
}
_DEFINITIONS = str(CRD_FILE.parent.relative_to(ROOT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version: the variables that run its services in this environment, and its definition."""

    name: str
    definition: dict[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)


def present_version() -> Version:
    """What is installed."""
    return Version(name="present", definition=yaml.safe_load(CRD_FILE.read_text()))


def earlier_version(commit: str = BEFORE_LENIENCY) -> Version:
    """A version of the history; its sources are kept beside the binaries, by commit."""
    folder = Settings.from_environment(os.environ).cache / "versions" / commit
    if not folder.exists():
        _extract(commit, folder)
    paths = os.pathsep.join(str(folder / source) for source in _PACKAGES.values())
    environment = {"PYTHONPATH": paths}
    _check_found(folder, environment)
    definition = yaml.safe_load((folder / _DEFINITIONS / CRD_FILE.name).read_text())
    return Version(name="earlier", definition=definition, environment=environment)


def _extract(commit: str, folder: Path) -> None:
    # A checkout of another owner, as in a container, is read all the same.
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "archive", commit]
    try:
        done = subprocess.run(
            [*command, *_PACKAGES.values(), _DEFINITIONS], capture_output=True, check=False
        )
        code, said = done.returncode, done.stderr.decode(errors="replace")
    except FileNotFoundError as error:
        code, said = 127, str(error)
    assert code == 0, (
        f"this test runs the version of commit {commit} beside the present one, and takes it from "
        "the history: it needs git, and a clone that is neither shallow (git fetch --unshallow) "
        f"nor an archive of the sources. git said: {said}"
    )
    fresh = folder.with_name(f"{commit}-{secrets.token_hex(4)}")
    fresh.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(fresh, filter="data")
    try:
        fresh.rename(folder)
    except OSError:  # another session was faster
        shutil.rmtree(fresh)


def _check_found(folder: Path, environment: Mapping[str, str]) -> None:
    """An environment that found the present packages first would test nothing."""
    code = "import importlib.util as u, sys; [print(u.find_spec(n).origin) for n in sys.argv[1:]]"
    found = subprocess.run(
        [sys.executable, "-c", code, *_PACKAGES],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(Path(line).is_relative_to(folder) for line in found.stdout.splitlines()), found
