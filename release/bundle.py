"""All that a release is made of, but the images, in one directory: `python -m release.bundle
DIRECTORY`.

The same commit makes the same bytes, so anybody can compare what was published with its sources.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import Final

from release import wheels
from release.provenance import commit, sha256, statement
from release.sbom import LOCKS, sboms
from release.version import ROOT, present

CHART: Final = "charts/di-orchestrator"


class NotClean(Exception):
    """What is there is not what the commit has."""


def bundle(root: Path, directory: Path, *, revision: str) -> list[Path]:
    """Make wheels, chart, bills of materials, provenance and checksums; returns the files.

    Raises:
        CannotBuild: a wheel was not made.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    version = present(root)
    made = wheels.build(root, directory / "wheels")
    made.append(_packed(root / CHART, directory / f"di-orchestrator-{version}.tgz"))
    for name, found in sboms(root, version).items():
        made.append(_written(directory / "sbom" / f"{name}.cdx.json", found))
    said = statement(
        directory,
        made,
        version=version,
        revision=revision,
        locks=[(name, root / name) for name in sorted(set(LOCKS.values()))],
    )
    made.append(_written(directory / "provenance.json", said))
    sums = directory / "SHA256SUMS"
    sums.write_text("".join(f"{sha256(file)}  {file.relative_to(directory)}\n" for file in made))
    return [*made, sums]


def _written(file: Path, content: object) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=2) + "\n")
    return file


def _packed(chart: Path, archive: Path) -> Path:
    """A chart as helm packages it, without the times of its files; helm reads Chart.yaml first."""
    files = [each for each in sorted(chart.rglob("*")) if not each.name.startswith(".")]
    files.sort(key=lambda file: file.name != "Chart.yaml")
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for file in (each for each in files if each.is_file()):
            entry = tarfile.TarInfo(str(PurePosixPath(chart.name, file.relative_to(chart))))
            entry.size, entry.mode = file.stat().st_size, 0o644
            with file.open("rb") as opened:
                tar.addfile(entry, opened)
    archive.write_bytes(gzip.compress(content.getvalue(), mtime=0))
    return archive


def main(arguments: list[str]) -> int:
    """Make the release of what is checked out and name its files."""
    (directory,) = arguments
    try:
        revision, clean = commit(ROOT)
        if not clean:
            raise NotClean("there are changes that are not committed: git status")
        for file in bundle(ROOT, Path(directory), revision=revision):
            print(file)
    except (NotClean, wheels.CannotBuild) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
