"""Sources of earlier versions, taken from the history and kept by commit."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Final

from di_cluster.errors import ClusterError
from di_cluster.settings import Settings

ROOT: Final = Path(__file__).resolve().parents[2]
BEFORE_LENIENCY: Final = "604a3dbae60dd28522adb2fbd014270da22c1029"
"""The last version whose operator judged jobs that run."""
PACKAGES: Final = {
    "di_api": "services/api/src",
    "di_certs": "certs/src",
    "di_operator": "services/operator/src",
    "di_server": "services/server/src",
    "di_webhook": "services/webhook/src",
}
"""Folders of the packages."""
DEFINITIONS: Final = "charts/di-orchestrator/files"
"""The folder of the CRDs."""
_PROJECT: Final = "services/operator/pyproject.toml"
"""Names the allocation policies, which Python finds by a package's metadata."""


def folder_of(commit: str) -> Path:
    """Where the sources of a version are kept."""
    return Settings.from_environment(os.environ).cache / "versions" / f"{commit}-with-metadata"


def sources(commit: str) -> Path:
    """The folder with the packages and CRDs of a version; they are extracted if they are missing.

    Raises:
        ClusterError: the history does not have the commit, or git is missing.
    """
    folder = folder_of(commit)
    if not folder.exists():
        _extract(commit, folder)
    return folder


def _extract(commit: str, folder: Path) -> None:
    # A checkout of another owner, as in a container, is read all the same.
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "archive", commit]
    try:
        done = subprocess.run(
            [*command, *PACKAGES.values(), DEFINITIONS, _PROJECT], capture_output=True, check=False
        )
        code, output = done.returncode, done.stderr.decode(errors="replace")
    except FileNotFoundError as error:
        code, output = 127, str(error)
    if code != 0:
        raise ClusterError(
            f"commit {commit} is not in this clone: git is needed, and a clone that is neither "
            "shallow (git fetch --unshallow) nor an archive of the sources. git printed: "
            f"{output}"
        )
    fresh = folder.with_name(f"{commit}-{secrets.token_hex(4)}")
    fresh.mkdir(parents=True)
    # tarfile's filters came with Python 3.11.4.
    subprocess.run(["tar", "--extract", "--directory", fresh], input=done.stdout, check=True)
    _write_metadata(fresh)
    try:
        fresh.rename(folder)
    except OSError:  # another session was faster
        shutil.rmtree(fresh)


def _write_metadata(folder: Path) -> None:
    """Write what an installation would: otherwise the policies of the present version are found."""
    project = tomllib.loads((folder / _PROJECT).read_text())["project"]
    metadata = folder / PACKAGES["di_operator"] / "di_operator-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: di-operator\nVersion: 0\n")
    groups = project["entry-points"].items()
    lines = [
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in each.items()) for group, each in groups
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
