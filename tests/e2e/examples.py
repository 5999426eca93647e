"""The examples as their users run them, with images of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from examples.demo.manifests import templates
from examples.images import build
from tests.e2e.kubectl import Kubectl
from tests.waiting import TRAINING_SECONDS, wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SOLVED = 475
"""Mean return from which on CartPole counts as solved."""


def load_image(cluster: Cluster | CurrentCluster, example: str) -> str:
    """Build an example's image and put it on every node; returns its name."""
    built = build(cluster, EXAMPLES / example)
    cluster.load_image(built)
    return built.reference


def job_of(example: str, *, image: str, namespace: str) -> dict[str, Any]:
    """An example's job with that image."""
    found = yaml.safe_load((EXAMPLES / example / "job.yaml").read_text())
    return with_image(found, image=image, namespace=namespace)


def with_image(found: dict[str, Any], *, image: str, namespace: str) -> dict[str, Any]:
    """A job of the examples with that image, which it changes."""
    found["metadata"]["namespace"] = namespace
    for template in templates(found):
        for container in template["spec"]["containers"]:
            container["image"] = image
    return found


def wait_for_end(kubectl: Kubectl, job: str, *, namespace: str) -> None:
    """Wait until the job has finished, however it ended."""
    wait_until(
        lambda: kubectl.phase(job, namespace=namespace) in ("Succeeded", "Failed"),
        TRAINING_SECONDS,
        what=f"{job} to finish",
    )
