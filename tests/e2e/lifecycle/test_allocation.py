"""Preemptible jobs share simulated GPU nodes beside the real one, installed as users install it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.conftest import GPUS, NODES
from tests.e2e.gpu_jobs import SIMULATED, learners, report, settled
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import condition, pods_of, wait_for_phase
from tests.waiting import wait_until


def restarts(kubectl: Kubectl, name: str, namespace: str) -> int:
    status: Object = kubectl.get("dijob", name, namespace=namespace)["status"]
    return int(status["restarts"])


def two_that_report(kubectl: Kubectl, namespace: str) -> None:
    """The jobs `a` and `b`, both of which gain from every GPU, and have said so."""
    for name in "ab":
        kubectl.apply(learners(name, namespace))
    # Of a job that has not said how fast it is nobody knows whether it can use a second node.
    settled(kubectl, "ab", namespace, lambda sizes: max(sizes.values()) <= GPUS)
    report(kubectl, "ab", namespace)


@pytest.mark.extended  # tests/integration/operator/test_allocation.py has it without a kubelet.
def test_jobs_share_the_gpus_as_they_come_and_go(
    kubectl: Kubectl, namespace: str, gpu_nodes: list[str]
) -> None:
    everything = NODES * GPUS
    two_that_report(kubectl, namespace)
    # Equal jobs, equal shares, even if the first report was acted upon before the second came.
    shared = settled(kubectl, "ab", namespace, lambda sizes: {*sizes.values()} == {everything // 2})
    assert not shared["a"] & shared["b"]

    # One more arrives: it starts small, and the others make room.
    kubectl.apply(learners("c", namespace))
    settled(kubectl, "abc", namespace, lambda sizes: sum(sizes.values()) == everything)
    # How fast it grows at the cost of the others is weighed against their restarts.
    report(kubectl, "c", namespace)

    # One ends: what it had goes to the others.
    kubectl("--namespace", namespace, "delete", "dijob", "b", "--wait=false")
    rest = settled(kubectl, "ac", namespace, lambda sizes: sum(sizes.values()) == everything)

    # A node goes: whoever was there moves, and nobody counts it as a failure.
    lost = next(iter(rest["a"]))
    with _without_node(kubectl, lost):
        after = settled(
            kubectl,
            "ac",
            namespace,
            lambda sizes: everything // 2 <= sum(sizes.values()) <= everything - GPUS,
        )
        assert lost not in {*after["a"], *after["c"]}
        assert [restarts(kubectl, name, namespace) for name in "ac"] == [0, 0]


@contextmanager
def _without_node(kubectl: Kubectl, name: str) -> Iterator[None]:
    """Delete a node, and create it again afterwards: other tests need all of them."""
    node = kubectl.get("node", name, namespace="default")
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        del node["metadata"][field]
    kubectl("delete", "node", name)
    try:
        yield
    finally:
        kubectl("create", "--filename", "-", stdin=json.dumps(node))


@pytest.mark.proves("runbook.md#when-something-is-wrong/the-job-stays-pending")
def test_a_job_whose_only_node_is_taken_says_that_it_waits(
    kubectl: Kubectl, namespace: str, gpu_nodes: list[str]
) -> None:
    """The last one here: what others see of the nodes while its jobs go is nothing they expect."""
    node = kubectl.items("nodes", SIMULATED, namespace=namespace)[0]["metadata"]["name"]
    for name, replicas in (("first", GPUS), ("next", 1)):
        body = learners(name, namespace)
        (learner,) = body["spec"]["tasks"]
        learner |= {"replicas": replicas, "minReplicas": replicas, "maxReplicas": replicas}
        learner["template"]["spec"]["nodeSelector"]["kubernetes.io/hostname"] = node
        kubectl.apply(body)
        if name == "first":
            wait_for_phase(kubectl, name, "Running", namespace=namespace)
    _wait_for(kubectl, "next", "WaitingForNodes", namespace)
    assert not pods_of(kubectl, "next", namespace=namespace)


def _wait_for(kubectl: Kubectl, name: str, reason: str, namespace: str) -> str:
    """Wait until a job is Pending for a reason; the message that goes with it."""

    def told() -> str:
        found = condition(kubectl.get("dijob", name, namespace=namespace), "Pending")
        assert (found["status"], found["reason"]) == ("True", reason), found
        return str(found["message"])

    return wait_until(told, what=f"{name} to be {reason}")
