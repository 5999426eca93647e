"""Images and chart into a registry: `python -m release.push REGISTRY CHART`.

The images are those of the working tree, under the names that the chart has with
`imageRegistry=REGISTRY`; the chart is what `make release` has packed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from di_cluster.commands import run
from di_cluster.errors import ClusterError
from di_cluster.images import Image
from di_cluster.release import REPOSITORY, Release, image_builder
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from release.version import ROOT, present

_LOCAL: Final = ("localhost", "127.0.0.1")
_SECONDS: Final = 300


class Pushing(Protocol):
    """The part of a builder of images that is needed here."""

    def binary(self, program: str) -> Path:
        """Where a program is."""

    def push_image(self, image: Image, destination: str, *, plain: bool) -> None:
        """Push an image under that name."""


def push(
    target: Pushing, images: Mapping[str, Image], chart: Path, *, registry: str, version: str
) -> list[str]:
    """Push everything; returns where it is.

    Args:
        target: who has built the images.
        images: by service.
        chart: the packed chart.
        registry: a host, and perhaps a path below it. One of this machine is spoken to by HTTP, as
            docker does.
        version: the tag of the images.

    Raises:
        ClusterError: the registry, or a program that speaks to it, refuses.
    """
    plain = registry.partition("/")[0].partition(":")[0] in _LOCAL
    pushed = []
    for service, image in images.items():
        destination = f"{registry}/{REPOSITORY}/di-{service}:{version}"
        target.push_image(image, destination, plain=plain)
        pushed.append(destination)
    address = f"oci://{registry}/charts"
    options = ["--plain-http"] if plain else []
    run([target.binary("helm"), "push", chart, address, *options], seconds=_SECONDS)
    return [*pushed, f"{address}/di-orchestrator --version {version}"]


def main(arguments: list[str]) -> int:
    """Build the images and push them and the chart."""
    registry, chart = arguments
    settings, reporter = Settings.from_environment(os.environ), Reporter(sys.stderr)
    try:
        target = image_builder(settings, reporter)
        images = Release(target, root=ROOT, reporter=reporter).build_images()
        for each in push(target, images, Path(chart), registry=registry, version=present(ROOT)):
            print(each)
    except ClusterError as error:
        print(f"push: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
