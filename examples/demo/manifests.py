"""The examples' manifests, and where images stand in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_FOLDER = ROOT / "examples"
EXAMPLES: Mapping[str, Path] = {
    "cartpole": _FOLDER / "cartpole" / "job.yaml",
    "coordinated": _FOLDER / "coordinated-cartpole" / "job.yaml",
    "di-engine": _FOLDER / "di-engine" / "job.yaml",
    "di-engine-dist": _FOLDER / "di-engine" / "dist.yaml",
    "torch-ddp": _FOLDER / "torch-ddp" / "job.yaml",
    "jax": _FOLDER / "jax" / "job.yaml",
    "ray": _FOLDER / "ray" / "job.yaml",
    "grpo": _FOLDER / "grpo" / "job.yaml",
    "impala": _FOLDER / "impala" / "job.yaml",
}
"""By name; the image of each is built from the manifest's folder."""
REFUSED = _FOLDER / "cartpole" / "refused.yaml"
"""A job with mistakes."""
_ROLES = ("coordinator", "collector", "learner")


def templates(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The pod templates of a job of any version."""
    spec = manifest["spec"]
    for part in (*spec.get("tasks", ()), *(spec.get(role, {}) for role in _ROLES)):
        if "template" in part:
            yield part["template"]
