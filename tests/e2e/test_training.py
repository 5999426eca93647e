"""The CartPole example as its users run it: it learns, scales its own collectors, and ends."""

from __future__ import annotations

from typing import Any

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import SOLVED, job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import pods_of, wait_for_event
from tests.waiting import wait_until

EXAMPLE = "cartpole"
TRAINING_SECONDS = 400
"""Two minutes on two idle cores."""


@pytest.fixture(scope="module")
def image(cluster: Cluster | CurrentCluster) -> str:
    """The example's image, on every node."""
    return load_image(cluster, EXAMPLE)


@pytest.fixture
def manifest(image: str, namespace: str) -> dict[str, Any]:
    """The example's job with the image of this machine."""
    return job_of(EXAMPLE, image=image, namespace=namespace)


def test_the_example_trains_scales_itself_and_succeeds(
    kubectl: Kubectl, manifest: dict[str, Any], namespace: str
) -> None:
    name = manifest["metadata"]["name"]
    kubectl.apply(manifest)
    wait_for_end(kubectl, name, namespace=namespace, seconds=TRAINING_SECONDS)
    found = kubectl.get("dijob", name, namespace=namespace)
    status = found["status"]
    assert status["phase"] == "Succeeded", status
    assert status.get("restarts", 0) == 0

    # The conditions are the history: each phase that was reached has one, the last is True. It was
    # over with its learner, by the success policy that the webhook had given it.
    reached = {entry["type"]: entry["status"] for entry in status["conditions"]}
    assert {"Starting", "Running", "Rescheduling", "Succeeded"} <= set(reached)
    true = {kind for kind, value in reached.items() if value == "True"}
    assert true - {"SuccessCriteriaMet"} == {"Succeeded"}
    policy = {"tasks": ["learner"], "operator": "All", "gracePeriodSeconds": 30}
    assert found["spec"]["successPolicy"] == policy

    # The learner asked for two collectors and gave them back; the operator carried it out.
    profilings = status["profilings"]
    assert [change for _, change in profilings["scaling"]] == [2, -2]
    assert status["reschedules"] == 2
    for change in ("from 2 to 4", "from 4 to 2"):
        wait_for_event(kubectl, name, f"collector {change}", namespace=namespace)
    collectors = next(task for task in found["spec"]["tasks"] if task["type"] == "collector")
    assert collectors["replicas"] == 2

    # It learned: the curve begins as chance plays and ends with the environment solved.
    returns = [mean for _, _, mean in profilings["curve"]]
    assert returns[0] < 100
    assert returns[-1] >= SOLVED

    # What the pods said can be read afterwards.
    def ended() -> bool:
        # Collectors that were given back have some seconds to end.
        left = pods_of(kubectl, name, namespace=namespace)
        assert {pod.phase for pod in left.values()} == {"Succeeded"}, left
        return True

    wait_until(ended, 60, what="every pod to have ended", every=0.5)
    log = kubectl.logs(f"{name}-learner-0", namespace=namespace)
    assert "solved: mean return" in log
