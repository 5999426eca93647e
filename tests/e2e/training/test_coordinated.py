"""The CartPole example with a coordinator as its users run it, with a collector taken away."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.coordinated import coordinator_name
from di_api.names import LABEL_REPLICA_TYPE
from di_api.spec import Role
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from examples.demo.curve import read_record
from tests.e2e.examples import SOLVED, job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until

pytestmark = pytest.mark.extended

EXAMPLE = "coordinated-cartpole"
"""Half a minute on two idle cores."""


@pytest.fixture(scope="module")
def image(cluster: Cluster | CurrentCluster) -> str:
    """The example's image, on every node."""
    return load_image(cluster, EXAMPLE)


@pytest.fixture
def manifest(image: str, namespace: str) -> dict[str, Any]:
    """The example's job with the image of this machine."""
    return job_of(EXAMPLE, image=image, namespace=namespace)


@pytest.mark.proves(
    "di-engine.md#try-it/make-demo-example-coordinated",
    "di-engine.md#a-coordinator-of-your-own",
    "sdk.md#in-the-examples/coordinated-cartpole",
)
def test_the_example_trains_scales_itself_and_survives_a_loss(
    kubectl: Kubectl, manifest: dict[str, Any], namespace: str
) -> None:
    name = manifest["metadata"]["name"]
    coordinator = coordinator_name(name)

    def record() -> dict[str, list[list[float]]]:
        return read_record(kubectl.logs(coordinator, namespace=namespace))

    kubectl.apply(manifest)
    wait_until(lambda: kubectl.phase(name, namespace=namespace) == "Running")
    wait_until(lambda: len(record()["curve"]) >= 2, what="it trains")
    selector = f"--selector={LABEL_REPLICA_TYPE}={Role.COLLECTOR}"
    victim = kubectl.items("pods", selector, namespace=namespace)[0]["metadata"]["name"]
    kubectl("--namespace", namespace, "delete", "pod", victim, "--wait=false")
    wait_for_end(kubectl, name, namespace=namespace)
    status = kubectl.get("dijob", name, namespace=namespace)["status"]
    assert status["phase"] == "Succeeded", kubectl.logs(coordinator, namespace=namespace)
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
