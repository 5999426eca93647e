"""Jobs with a queue whose pods are to be near each other."""

from __future__ import annotations

from typing import Any, Final

from di_operator.builders.topology import GATE
from tests.unit.lifecycle.cluster_model import task
from tests.unit.lifecycle.test_queued import CORE, admitted, submitted, tiered, work

RACK: Final = "example.com/rack"


def near(*tasks: str, **more: str) -> dict[str, Any]:
    return {"topology": [{"tasks": [*tasks], "required": RACK, **more}]}


def test_pods_of_the_core_wait_for_their_domain_and_others_do_not() -> None:
    cluster = admitted(tiered(3, core=2), scheduling=near("work"))
    (pod_set,) = cluster.workloads[CORE]["spec"]["podSets"]
    assert pod_set["topologyRequest"] == {"required": RACK}
    cluster.admit("x-work-x0").settle()
    gated = {name: GATE in str(pod["spec"]) for name, pod in cluster.pods.items()}
    assert gated == {"x-work-0": True, "x-work-1": True, "x-work-2": False}
    assert all(RACK in str(pod["spec"]["affinity"]) for pod in cluster.pods.values())


def test_a_topology_that_kueue_lacks_is_reported_and_not_requested() -> None:
    tasks = work(2), task("learner", 2)
    cluster = submitted(*tasks, scheduling=near("work", "learner", colocate="Tasks"))
    assert not cluster.workloads
    told = cluster.condition("Queued")
    assert (told["status"], told["reason"]) == ("True", "TopologyNotSupported")
    assert "requires it of 2 of work, 2 of learner" in told["message"]
