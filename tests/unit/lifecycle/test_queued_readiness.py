"""What Kueue is told of the pods of a job that it has admitted: whether they are ready."""

from __future__ import annotations

from tests.unit.lifecycle.cluster_model import task
from tests.unit.lifecycle.kueue_model import QueuedCluster
from tests.unit.lifecycle.test_queued import CORE, admitted, up, work


def test_pods_ready_of_the_workload_follows_the_pods() -> None:
    def told(cluster: QueuedCluster) -> tuple[str, str]:
        conditions = cluster.workloads[CORE]["status"]["conditions"]
        (found,) = (each for each in conditions if each["type"] == "PodsReady")
        return found["status"], found["reason"]

    cluster = admitted()
    assert told(cluster) == ("True", "Started")
    cluster.fail("x-work-1").settle()
    assert told(cluster) == ("False", "WaitForRecovery")
    assert cluster.states() == {CORE: "admitted"}
    cluster.wait(60)
    up(cluster)
    assert told(cluster) == ("True", "Recovered")


def test_pods_that_have_succeeded_are_as_good_as_ready() -> None:
    cluster = admitted(work(2), task("learner")).succeed("x-work-0").settle()
    conditions = cluster.workloads[CORE]["status"]["conditions"]
    assert any(each["type"] == "PodsReady" and each["status"] == "True" for each in conditions)
