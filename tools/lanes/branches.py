"""Lines and branches that tests have run: by package, and the files below `ENOUGH`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

ENOUGH: Final = 0.9
"""The share of a file's lines and branches below which it is shown with a reason."""
EXPLAINED: Final[Mapping[str, str]] = MappingProxyType({})
"""Why a file stays below `ENOUGH` though its behavior is tested, by its path."""


class CoverageFailed(Exception):
    """What the lanes measured cannot be combined or shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A file or a package: how many of its lines and branches ran, of how many."""

    name: str
    ran: int
    total: int

    @property
    def share(self) -> float:
        return self.ran / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """What the lanes of a run have measured.

    Attributes:
        lines: the page with every line, relative to the folder of the run.
        areas: each package, the least tested first.
        below: the files below `ENOUGH`, the least tested first.
    """

    lines: Path
    areas: Sequence[Part]
    below: Sequence[Part]


def combine(out: Path) -> Branches | None:
    """Combine what the lanes measured into this folder; None: none measured anything.

    Raises:
        CoverageFailed: coverage could not combine or report it, and printed why.
    """
    parts = [str(each) for each in out.glob("coverage.*")]
    if not parts:
        return None
    # Nothing else may be called coverage.*: each report takes such files for data.
    pages, report = out / "coverage-pages", out / "branches.json"
    _coverage(out, "combine", "--quiet", *parts)
    _coverage(out, "html", "--quiet", f"--directory={pages}")
    _coverage(out, "json", "--quiet", "-o", str(report))
    text = _coverage(out, "report", "--skip-covered", "--sort=cover")
    (out / "branches.txt").write_text(text)
    return read(json.loads(report.read_text()), lines=Path(pages.name) / "index.html")


def read(report: Mapping[str, Any], *, lines: Path) -> Branches:
    """Return packages and files of a JSON report of coverage."""
    files = [_file(name, found["summary"]) for name, found in report["files"].items()]
    by_package: dict[str, list[Part]] = {}
    for each in files:
        by_package.setdefault(_package(each.name), []).append(each)
    areas = [
        Part(name=name, ran=sum(p.ran for p in parts), total=sum(p.total for p in parts))
        for name, parts in by_package.items()
    ]
    below = [each for each in files if each.share < ENOUGH]
    return Branches(lines=lines, areas=_least_first(areas), below=_least_first(below))


def _least_first(parts: Sequence[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: (part.share, part.name))


def _file(name: str, summary: Mapping[str, int]) -> Part:
    return Part(
        name=name,
        ran=summary["covered_lines"] + summary["covered_branches"],
        total=summary["num_statements"] + summary["num_branches"],
    )


def _package(name: str) -> str:
    """Return the package of a file, such as ``di_api`` of ``libraries/api/src/di_api/x.py``."""
    return name.rpartition("src/")[2].partition("/")[0]


def _coverage(out: Path, command: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "coverage", command, f"--data-file={out / 'coverage'}", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CoverageFailed(f"coverage {command} (exit code {done.returncode})")
    return done.stdout
