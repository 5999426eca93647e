"""The source tree that the images and the chart are made of."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import di_cli
from di_cli.errors import CommandError
from di_cli.install.plan import CHART

FOLDERS: Final = ("certs", "cli", "dashboard", "examples", "libraries", "services")
"""Folders of the images' content."""
FILES: Final = ("pyproject.toml", "uv.lock")
_SKIPPED: Final = re.compile(r"__pycache__$|\.egg-info$|^build$|^dist$|^\..*_cache$")
_VERSION: Final = re.compile(r'^appVersion: *"?([^"\s]+)', re.MULTILINE)


def find_source(folder: Path) -> Path:
    """Return the root of the clone that the folder is in, else of the one that `di` runs from.

    Raises:
        CommandError: there is none.
    """
    candidates = [folder, *folder.parents, *Path(di_cli.__file__).resolve().parents]
    for each in candidates:
        if (each / CHART / "Chart.yaml").is_file():
            return each
    raise CommandError(
        "di install needs a clone of the repository, with the chart and the images' sources",
        where=f"{folder} has no {CHART}, and no folder above it",
        remedy="cd into a clone",
    )


def tag_of(root: Path) -> str:
    """Return the tag of images of this source: its version, and a hash of the images' content.

    Pods are replaced when it changes, so it changes with the content alone.
    """
    found = _VERSION.search((root / CHART / "Chart.yaml").read_text())
    digest = sha256()
    for path in sorted(_contents(root)):
        name = path.relative_to(root).as_posix()
        digest.update(f"{name}\0{sha256(path.read_bytes()).hexdigest()}\n".encode())
    return f"{found[1] if found else 'unknown'}-{digest.hexdigest()[:12]}"


def _contents(root: Path) -> Iterator[Path]:
    yield from (root / name for name in FILES if (root / name).is_file())
    for top in FOLDERS:
        for folder, names, files in os.walk(root / top):
            names[:] = [each for each in names if not _SKIPPED.search(each)]
            yield from (Path(folder, each) for each in files)
