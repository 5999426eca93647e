"""Pods that lost the operator's label: they get it back, whether their job needs them or not."""

from __future__ import annotations

import pytest

from di_kube.cache import DELETED
from di_kube.errors import ApiError, Forbidden, Unavailable
from di_kube.resources import DIJOBS, PODS
from di_operator.cluster.unlabelled_pods import AT_ONCE
from di_operator.reconcile.lost_labels import MOST_READ
from tests.unit.operator.fake_api import Object
from tests.unit.operator.reconciling import KEY, Bench

POD = "a-work-1"


def running() -> Bench:
    bench = Bench()
    bench.submit()
    bench.reconcile()
    bench.run_pods()
    return bench


def lose(bench: Bench, name: str = POD, *, is_gone: bool = False) -> Object:
    """The watch loses a pod: its labels are removed, or the pod and the events before that."""
    pod: Object = bench.known.objects.pop(("Pod", name))
    if is_gone:
        del bench.api.objects["Pod", "ns", name]
    else:
        pod = bench.api.objects["Pod", "ns", name]
        bench.api.put(PODS, "ns", {**pod, "metadata": {**pod["metadata"], "labels": {}}})
    bench.unlabelled.follow(DELETED, pod)
    bench.api.calls.clear()
    bench.events.clear()
    return pod


def scale_to_one(bench: Bench) -> None:
    job = bench.api.objects["DIJob", "ns", "a"]
    (task,) = job["spec"]["tasks"]
    edited = {**job, "spec": {"tasks": [{**task, "replicas": 1}]}}
    edited["metadata"] = {**job["metadata"], "generation": 2}
    bench.known.observe(DIJOBS, bench.api.put(DIJOBS, "ns", edited))


@pytest.mark.proves("lifecycle.md#edited-by-hand/diengine-operator-of-a-pod")
def test_a_pod_that_its_job_does_not_need_any_more_is_seen_again_and_deleted() -> None:
    bench = running()
    scale_to_one(bench)
    lose(bench)
    assert bench.reconcile() == 0.0
    assert bench.api.calls == {("get", "Pod"): 1, ("patch", "Pod"): 1}
    assert [event.reason for event in bench.events] == ["MetadataRestored"]
    bench.settle()
    assert ("Pod", "ns", POD) not in bench.api.objects


def test_a_pod_that_its_job_needs_is_not_replaced() -> None:
    bench = running()
    uid = lose(bench)["metadata"]["uid"]
    bench.settle()
    pod = bench.api.objects["Pod", "ns", POD]
    assert (pod["metadata"]["uid"], bench.status["reschedules"]) == (uid, 0)
    assert bench.api.calls["create", "Pod"] == 0


def test_a_pod_that_is_gone_is_read_once() -> None:
    bench = running()
    scale_to_one(bench)
    lose(bench, is_gone=True)
    assert bench.reconcile() == 0.0
    bench.settle()
    assert bench.api.calls["get", "Pod"] == 1
    assert "MetadataRestored" not in {event.reason for event in bench.events}


@pytest.mark.parametrize("change", ["another pod of the name", "another owner"])
def test_a_pod_that_is_not_of_the_job_any_more_is_left_alone(change: str) -> None:
    bench = running()
    scale_to_one(bench)
    lose(bench)
    pod = bench.api.objects["Pod", "ns", POD]
    edit: Object = {"uid": "x"} if change == "another pod of the name" else {"ownerReferences": []}
    bench.api.put(PODS, "ns", {**pod, "metadata": {**pod["metadata"], **edit}})
    bench.settle()
    assert bench.api.calls["patch", "Pod"] == 0
    assert bench.unlabelled.until_due(KEY) is None


def test_nothing_is_decided_before_a_failed_read_is_repeated() -> None:
    bench = running()
    scale_to_one(bench)
    lose(bench)
    bench.refuse(Unavailable, kind="Pod")
    for _ in range(2):
        with pytest.raises(Unavailable):
            bench.reconcile()
    assert {*bench.api.calls} == {("get", "Pod")}


def test_a_job_goes_on_while_a_policy_refuses_the_labels_of_its_pod() -> None:
    bench = running()
    scale_to_one(bench)
    lose(bench)
    bench.refuse(Forbidden, verb="patch", kind="Pod")
    for _ in range(AT_ONCE):
        assert bench.reconcile() == 0.0
    delay = bench.reconcile()
    assert bench.status["reschedules"] == 1
    for _ in range(3):
        delay = bench.reconcile()
    assert delay == pytest.approx(0.5)
    assert bench.api.calls["patch", "Pod"] == AT_ONCE
    bench.api.before = lambda verb, kind, name: None
    bench.seconds += 0.5
    bench.settle()
    assert ("Pod", "ns", POD) not in bench.api.objects


def test_the_reads_of_one_reconcile_are_bounded() -> None:
    bench = Bench()
    bench.submit(replicas=MOST_READ + 2)
    bench.reconcile()
    for name in [name for kind, name in bench.known.objects if kind == "Pod"]:
        lose(bench, name, is_gone=True)

    def count(verb: str, kind: str, name: str) -> ApiError | None:
        assert bench.api.calls["get", "Pod"] <= MOST_READ
        return None

    bench.api.before = count
    assert bench.reconcile() == 0.0
    assert bench.api.calls["get", "Pod"] == MOST_READ
    bench.api.calls.clear()
    assert bench.reconcile() == 0.0
    assert bench.api.calls == {("get", "Pod"): 2}
