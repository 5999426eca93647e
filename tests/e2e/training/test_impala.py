"""The IMPALA example as its users run it, and with more collectors than one machine could run."""

from __future__ import annotations

import time
from typing import Any

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.nodes.simulated import NODE_LABEL, NODE_TAINT
from di_cluster.reporter import Reporter
from tests.e2e.examples import job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl
from tests.e2e.lifecycle.test_scaling import rest
from tests.e2e.pods import pods_of, wait_for_event
from tests.waiting import wait_until

pytestmark = pytest.mark.extended

EXAMPLE = "impala"
LEARNER = f"{EXAMPLE}-learner-0"
TARGET = 300
"""Mean return that ends the training, long after the eight seconds in which it only measures."""
"""For each number of collectors; all of it takes less than a minute."""


@pytest.fixture(scope="module")
def image(cluster: Cluster | CurrentCluster) -> str:
    """The example's image, on every node."""
    return load_image(cluster, EXAMPLE)


@pytest.fixture
def manifest(image: str, namespace: str) -> dict[str, Any]:
    """The example's job with the image of this machine."""
    return job_of(EXAMPLE, image=image, namespace=namespace)


@pytest.mark.proves("sdk.md#in-the-examples/impala")
def test_it_learns_and_has_more_collectors(
    kubectl: Kubectl, manifest: dict[str, Any], namespace: str
) -> None:
    learner, collector = manifest["spec"]["tasks"]
    collector |= {"replicas": 2, "maxReplicas": 4}
    (container,) = learner["template"]["spec"]["containers"]
    for variable in container["env"]:
        if variable["name"] == "MEAN_RETURN":
            variable["value"] = str(TARGET)
    kubectl.apply(manifest)
    wait_for_end(kubectl, EXAMPLE, namespace=namespace)

    found = kubectl.get("dijob", EXAMPLE, namespace=namespace)
    status = found["status"]
    assert status["phase"] == "Succeeded", kubectl.logs(LEARNER, namespace=namespace)
    profilings = status["profilings"]
    assert profilings["curve"][-1][2] >= TARGET
    assert status["progress"]["step"] == profilings["step"] > 0
    # It asked until it had what it may have, and past its bound it was refused. Each change is one
    # of those that were present then, which may be fewer than were to be.
    assert any(change > 0 for _, change in profilings["scaling"])
    wait_for_event(kubectl, EXAMPLE, "collector from 2 to", namespace=namespace)
    assert found["spec"]["tasks"][1]["replicas"] == 4
    assert status.get("restarts", 0) == 0


@pytest.mark.proves("roles.md#many-small-collectors")
def test_it_has_fifty_collectors_then_two_hundred_then_twenty(
    kubectl: Kubectl,
    manifest: dict[str, Any],
    namespace: str,
    gpu_nodes: list[str],
    reporter: Reporter,
) -> None:
    """They are simulated and bring nothing, so the learner leaves their number alone."""
    collector = manifest["spec"]["tasks"][1]
    collector |= {"replicas": 50, "maxReplicas": 200}
    collector["template"]["spec"] |= {
        "nodeSelector": {NODE_LABEL[0]: NODE_LABEL[1]},
        "tolerations": [NODE_TAINT],
    }
    began = time.monotonic()
    kubectl.apply(manifest)
    _wait_for_collectors(kubectl, namespace, 50)
    reporter.say(f"50 collectors after {time.monotonic() - began:.1f} s")
    before = pods_of(kubectl, EXAMPLE, namespace=namespace)

    for method, change, count in (("POST", 150, 200), ("DELETE", 180, 20)):
        asked = time.monotonic()
        body = {"task": "collector", "replicas": change}
        code, said = rest(kubectl, namespace, method, body, pod=LEARNER)
        assert (code, said["replicas"]) == (200, count), said
        _wait_for_collectors(kubectl, namespace, count)
        reporter.say(f"{count} collectors after {time.monotonic() - asked:.1f} s")

    # Those that are left are the first ones, and nobody was disturbed.
    after = pods_of(kubectl, EXAMPLE, namespace=namespace)
    assert {name: pod.uid for name, pod in after.items()} == {
        name: before[name].uid for name in after
    }
    assert kubectl.get("dijob", EXAMPLE, namespace=namespace)["status"].get("restarts", 0) == 0


def _wait_for_collectors(kubectl: Kubectl, namespace: str, count: int) -> None:
    """Wait until the learner and so many collectors are ready, and nobody else is there."""
    names = {LEARNER, *(f"{EXAMPLE}-collector-{index}" for index in range(count))}

    def settled() -> bool:
        status = kubectl.get("dijob", EXAMPLE, namespace=namespace)["status"]
        ready = (status["phase"], status["replicas"], status["readyReplicas"])
        assert ready == ("Running", len(names), len(names)), ready
        # Only then: two hundred pods are a lot to read.
        pods = pods_of(kubectl, EXAMPLE, namespace=namespace)
        assert set(pods) == names
        return not any(pod.is_leaving for pod in pods.values())

    wait_until(settled, what=f"{count} collectors")
