"""Wheels of all that `pip install di-orchestrator[cli,local]` takes from us:
`python -m tools.release.wheels DIRECTORY`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.release.siblings import NO_HOOKS, projects, required
from tools.release.version import ROOT

PUBLISHED: Final = "di-orchestrator"
"""What people install; the others come because it, or one of its extras, asks for them."""
_SECONDS: Final = 120


class CannotBuild(Exception):
    """A wheel was not made; the message has what the builder said."""


def packages(root: Path, published: str = PUBLISHED, *, all_extras: bool = True) -> dict[str, Path]:
    """The folder of each package of ours that the published one can ask for, by default with all
    extras.
    """
    ours = projects(root)
    return {name: ours[name][0] for name in required(ours, [published], all_extras=all_extras)}


def build(root: Path, directory: Path) -> list[Path]:
    """Make the wheels, in place of those that are there. The same sources make the same bytes.

    A package is built from a copy of its folder with the licence in it: the licence has one home,
    at the root, and hatchling takes what lies beside `pyproject.toml`.

    Raises:
        CannotBuild: hatchling fails, or takes too long.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.whl"):
        old.unlink()
    for name, folder in packages(root).items():
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(temporary) / name
            shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copyfile(root / "LICENSE", copy / "LICENSE")
            _build(copy, directory.resolve())
    return sorted(directory.glob("*.whl"))


def _build(folder: Path, directory: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    try:
        subprocess.run(
            [*command, "--directory", str(directory)],
            cwd=folder,
            env={**os.environ, NO_HOOKS: "1"},  # they would refer to this clone
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"{folder.name}: {error}\n{error.output}") from error


def main(arguments: list[str]) -> int:
    """Build the wheels into a directory and name them."""
    (directory,) = arguments
    try:
        for wheel in build(ROOT, Path(directory)):
            print(Path(directory) / wheel.name)
    except CannotBuild as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
