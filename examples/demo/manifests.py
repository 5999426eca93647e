"""The examples' manifests, and where images stand in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
_FOLDER = ROOT / "examples"
EXAMPLES: Mapping[str, Path] = {
    "cartpole": _FOLDER / "cartpole" / "job.yaml",
    "coordinated": _FOLDER / "coordinated-cartpole" / "job.yaml",
    "di-engine": _FOLDER / "di-engine" / "job.yaml",
    "di-engine-dist": _FOLDER / "di-engine" / "dist.yaml",
    "di-engine-elastic": _FOLDER / "di-engine" / "elastic.yaml",
    "torch-ddp": _FOLDER / "torch-ddp" / "job.yaml",
    "jax": _FOLDER / "jax" / "job.yaml",
    "paddle": _FOLDER / "paddle" / "job.yaml",
    "tensorflow": _FOLDER / "tensorflow" / "job.yaml",
    "mpi": _FOLDER / "mpi" / "job.yaml",
    "xgboost": _FOLDER / "xgboost" / "job.yaml",
    "ray": _FOLDER / "ray" / "job.yaml",
    "grpo": _FOLDER / "grpo" / "job.yaml",
    "impala": _FOLDER / "impala" / "job.yaml",
    "share": _FOLDER / "share" / "job.yaml",
}
"""By name; the image of each is built from the manifest's folder."""
REFUSED = _FOLDER / "cartpole" / "refused.yaml"
"""A job with mistakes."""
_ROLES = ("coordinator", "collector", "learner")


def with_image(file: Path, image: str) -> dict[str, Any]:
    """The job of a file, all of whose containers have that image."""
    manifest: dict[str, Any] = yaml.safe_load(file.read_text())
    for template in templates(manifest):
        for container in template["spec"]["containers"]:
            container["image"] = image
    return manifest


def templates(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The pod templates of a job of any version."""
    spec = manifest["spec"]
    for part in (*spec.get("tasks", ()), *(spec.get(role, {}) for role in _ROLES)):
        if "template" in part:
            yield part["template"]
