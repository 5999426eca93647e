"""Building the examples' images."""

from __future__ import annotations

import tomllib
from pathlib import Path

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.images import Image

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "di-orchestrator"


def build(cluster: Cluster | CurrentCluster, example: Path) -> Image:
    """Build the image of an example's folder.

    Those that use the package are built from the root of the repository, where it is, others from
    their own folder.
    """
    context = ROOT if uses_package(example) else example
    return cluster.build_image(context, f"di-{example.name}:dev", example / "Dockerfile")


def uses_package(example: Path) -> bool:
    """Whether an example depends on the package of this repository."""
    project = example / "pyproject.toml"
    if not project.is_file():
        return False
    found = tomllib.loads(project.read_text())
    return PACKAGE in found["project"].get("dependencies", ())
