"""One version for all that is released: `python -m tools.release.version [VERSION | --check]`.

That of the root `pyproject.toml` is the version; all other places repeat it. A version has three
numbers, because only such are versions both to Python (PEP 440) and to helm (SemVer 2).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_OWN: Final = r'(?m)^(version = ")([^"]*)'
_HOME: Final = "pyproject.toml"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a version is repeated.

    Attributes:
        files: a glob below the root; one that finds nothing is stale.
        pattern: finds each mention, in two groups: what is before the version, and the version.
        prefix: what stands before a version that was left out.
    """

    files: str
    pattern: str
    prefix: str = ""


def _of_ours(files: str) -> tuple[Place, Place]:
    """A package's own version, and those of ours that it needs: of the same release."""
    return (
        Place(files=files, pattern=_OWN),
        Place(
            files=files,
            pattern=r'(?m)(?<!^name = )("di-[a-z]+(?:\[[a-z,]+\])?)((?:==[^"]*)?)(?=")',
            prefix="==",
        ),
    )


PLACES: Final = (
    *_of_ours("libraries/*/pyproject.toml"),
    *_of_ours("services/*/pyproject.toml"),
    *_of_ours("[a-z]*/pyproject.toml"),
    *_of_ours("tools/*/pyproject.toml"),
    Place(files="examples/*/pyproject.toml", pattern=_OWN),
    Place(
        files="charts/di-orchestrator/Chart.yaml",
        pattern=r"(?m)^((?:version|appVersion): )(\S*)",
    ),
    Place(
        files="charts/di-orchestrator/Chart.yaml", pattern=r"(opendilab/di-[a-z]+:)([^\"]*)(?=\")"
    ),
    Place(files="uv.lock", pattern=r'(?m)^(name = "di-[a-z]+"\nversion = ")([^"]*)'),
    Place(files="sdk/src/di_orchestrator/__init__.py", pattern=r'(?m)^(__version__ = ")([^"]*)'),
)


class BadVersion(ValueError):
    """What was given is no version of a release, or the root has none."""


def present(root: Path) -> str:
    """The version.

    Raises:
        BadVersion: the root's `pyproject.toml` has none.
    """
    found = re.search(_OWN, (root / _HOME).read_text())
    if not found:
        raise BadVersion(f"{_HOME}: no line version = ...")
    return checked(found[2])


def checked(version: str) -> str:
    """The version itself.

    Raises:
        BadVersion: it is not three numbers.
    """
    if not _VERSION.fullmatch(version):
        raise BadVersion(f"{version!r} is no version: three numbers, such as 0.2.0")
    return version


def stale(root: Path, version: str) -> Iterator[str]:
    """What does not say this version, a line for each."""
    if (own := present(root)) != version:
        yield f"{_HOME}: {own}"
    for place in PLACES:
        files = sorted(root.glob(place.files))
        wanted = f"{place.prefix}{version}"
        mentions = 0
        for file in files:
            for found in re.finditer(place.pattern, file.read_text()):
                mentions += 1
                if found[2] != wanted:
                    yield f"{file.relative_to(root)}: {found[0]}"
        if not mentions:
            yield f"{place.files}: says no version"


def write(root: Path, version: str) -> list[Path]:
    """Say this version everywhere; returns the files that have changed.

    Raises:
        BadVersion: it is no version, or the root has none.
    """
    places = (Place(files=_HOME, pattern=_OWN), *PLACES)
    present(root)
    changed = dict[Path, None]()
    for place in places:
        for file in sorted(root.glob(place.files)):
            before = file.read_text()
            after = re.sub(place.pattern, rf"\g<1>{place.prefix}{version}", before)
            if after != before:
                file.write_text(after)
                changed[file] = None
    return list(changed)


def main(arguments: list[str]) -> int:
    """Print the version, compare all places with it, or write another one."""
    try:
        match arguments:
            case []:
                print(present(ROOT))
            case ["--check"]:
                lines = list(stale(ROOT, present(ROOT)))
                for line in lines:
                    print(f"{line}, but this is {present(ROOT)}: make version", file=sys.stderr)
                return 1 if lines else 0
            case [version]:
                for file in write(ROOT, checked(version)):
                    print(file.relative_to(ROOT))
            case _:
                raise BadVersion("one version, or none")
    except BadVersion as error:
        print(f"version: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
