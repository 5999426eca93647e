"""Building the examples' images."""

from __future__ import annotations

from pathlib import Path

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.images import Image

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "sdk/src"
"""Where the package is, which programs import from where they are."""


def build(cluster: Cluster | CurrentCluster, example: Path) -> Image:
    """Build the image of an example's folder.

    Those that use the package are built from the root of the repository, where it is, others from
    their own folder.
    """
    context = ROOT if uses_package(example) else example
    return cluster.build_image(context, f"di-{example.name}:dev", example / "Dockerfile")


def uses_package(example: Path) -> bool:
    """Whether the package of this repository is in an example's image."""
    return f"COPY {PACKAGE} " in (example / "Dockerfile").read_text()
