"""Building the examples' images."""

from __future__ import annotations

from pathlib import Path

from di_cluster.builds.images import Image, Source
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "sdk/src"
"""Where the package is, which programs import from where they are."""


def build(cluster: Cluster | CurrentCluster, example: Path) -> Image:
    """Build the image of an example's folder."""
    found = source(example)
    return cluster.build_image(found.context, found.tag, found.dockerfile)


def source(example: Path) -> Source:
    """What an example's image is built of.

    Examples that use the package are built from the root of the repository, where it is, others
    from their own folder.
    """
    context = ROOT if uses_package(example) else example
    return Source(context=context, tag=f"di-{example.name}:dev", dockerfile=example / "Dockerfile")


def uses_package(example: Path) -> bool:
    """Whether the package of this repository is in an example's image."""
    return f"COPY {PACKAGE} " in (example / "Dockerfile").read_text()
