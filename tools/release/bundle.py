"""All that a release is made of, but the images, in one directory: `python -m tools.release.bundle
DIRECTORY URL`.

The same commit makes the same bytes, so anybody can compare what was published with its sources.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import Final

from di_cluster.cluster import Cluster
from tools.release import krew, objects, wheels
from tools.release.archive import pack
from tools.release.locks import LOCK
from tools.release.provenance import commit, sha256, statement
from tools.release.requirements import requirements
from tools.release.sbom import sboms
from tools.release.version import ROOT, present

CHART: Final = "charts/di-orchestrator"


class NotClean(Exception):
    """What is there is not what the commit has."""


def bundle(root: Path, directory: Path, *, revision: str, url: str, helm: Path) -> list[Path]:
    """Make wheels, chart and its objects, kubectl plugin, bills of materials and checksums.

    Args:
        root: the root of the repository.
        directory: where they go, in place of what is there.
        revision: the commit.
        url: the folder that all of it is published in; the manifest of the plugin names it.
        helm: renders the chart.

    Returns:
        The files.

    Raises:
        CannotBuild: a wheel was not made.
        CannotRender: helm refuses the chart.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    version = present(root)
    made = wheels.build(root, directory / "wheels")
    made.append(pack_chart(root / CHART, directory / f"di-orchestrator-{version}.tgz"))
    text = objects.rendered(root / CHART, helm)
    for file in objects.FILES:
        made.append(directory / file)
        made[-1].parent.mkdir()
        made[-1].write_text(text)
    made += _plugin(root, directory, version=version, url=url)
    for name, found in sboms(root).items():
        made.append(_written(directory / "sbom" / f"{name}.cdx.json", found))
    said = statement(
        directory,
        made,
        version=version,
        revision=revision,
        locks=[(LOCK, root / LOCK)],
    )
    made.append(_written(directory / "provenance.json", said))
    sums = directory / "SHA256SUMS"
    sums.write_text("".join(f"{sha256(file)}  {file.relative_to(directory)}\n" for file in made))
    return [*made, sums]


def _plugin(root: Path, directory: Path, *, version: str, url: str) -> list[Path]:
    needed = wheels.packages(root, krew.PACKAGE, all_extras=False)
    ours = [name.replace("-", "_") for name in needed]
    packed = krew.archive(
        root,
        directory,
        version=version,
        wheels=[file for name in ours for file in (directory / "wheels").glob(f"{name}-*.whl")],
        needed=requirements(root, krew.PACKAGE),
    )
    manifest = directory / "krew" / "di.yaml"
    manifest.parent.mkdir()
    manifest.write_text(krew.manifest(packed, version=version, url=url))
    return [packed, manifest]


def _written(file: Path, content: object) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=2) + "\n")
    return file


def pack_chart(chart: Path, archive: Path) -> Path:
    """A chart as helm packages it; helm reads Chart.yaml first."""
    files = [each for each in sorted(chart.rglob("*")) if each.is_file()]
    files.sort(key=lambda file: file.name != "Chart.yaml")
    return pack(
        archive,
        {
            str(PurePosixPath(chart.name, file.relative_to(chart))): file
            for file in files
            if not file.name.startswith(".")
        },
    )


def main(arguments: list[str]) -> int:
    """Make the release of what is checked out and name its files."""
    directory, url = arguments
    try:
        revision, clean = commit(ROOT)
        if not clean:
            raise NotClean("there are changes that are not committed: git status")
        helm = Cluster().binary("helm")
        for file in bundle(ROOT, Path(directory), revision=revision, url=url, helm=helm):
            print(file)
    except (NotClean, wheels.CannotBuild, objects.CannotRender) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
