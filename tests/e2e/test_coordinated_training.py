"""The CartPole example with a coordinator as its users run it, with a collector taken away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from di_api.coordinated import Role, coordinator_name
from di_api.names import LABEL_REPLICA_TYPE
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from examples.demo.curve import read_record
from examples.demo.manifests import templates
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "coordinated-cartpole"
SOLVED = 475
TRAINING_SECONDS = 300
"""Half a minute on two idle cores."""


@pytest.fixture(scope="module")
def image(cluster: Cluster | CurrentCluster) -> str:
    """The example's image, on every node."""
    built = cluster.build_image(EXAMPLE, "di-coordinated-cartpole:dev")
    cluster.load_image(built.reference)
    return built.reference


@pytest.fixture
def manifest(image: str, namespace: str) -> dict[str, Any]:
    """The example's job with the image of this machine."""
    found: dict[str, Any] = yaml.safe_load((EXAMPLE / "job.yaml").read_text())
    found["metadata"]["namespace"] = namespace
    for template in templates(found):
        for container in template["spec"]["containers"]:
            container["image"] = image
    return found


def test_the_example_trains_scales_itself_and_survives_a_loss(
    kubectl: Kubectl, manifest: dict[str, Any], namespace: str
) -> None:
    name = manifest["metadata"]["name"]
    coordinator = coordinator_name(name)

    def record() -> dict[str, list[list[float]]]:
        return read_record(kubectl("--namespace", namespace, "logs", coordinator))

    kubectl.apply(manifest)
    wait_until(lambda: kubectl.phase(name, namespace=namespace) == "Running", 60, every=0.5)
    wait_until(lambda: len(record()["curve"]) >= 2, 60, what="it trains", every=0.5)
    selector = f"--selector={LABEL_REPLICA_TYPE}={Role.COLLECTOR}"
    victim = kubectl.items("pods", selector, namespace=namespace)[0]["metadata"]["name"]
    kubectl("--namespace", namespace, "delete", "pod", victim, "--wait=false")
    wait_until(
        lambda: kubectl.phase(name, namespace=namespace) in ("Succeeded", "Failed"),
        TRAINING_SECONDS,
        every=1,
    )
    status = kubectl.get("dijob", name, namespace=namespace)["status"]
    assert status["phase"] == "Succeeded", kubectl("--namespace", namespace, "logs", coordinator)
    # The operator made the one that was taken away again.
    assert status["reschedules"] >= 1

    found = record()
    returns = [mean for _, _, mean in found["curve"]]
    assert returns[0] < 100
    assert max(returns) >= SOLVED
    # It began with a few collectors, had more for a while, and gave all of them back.
    changes = [change for _, change in found["scaling"]]
    assert changes[0] > 0
    assert changes[1] > 0
    assert sum(changes) == 0
