"""Pods are read once for as long as they stay what they are."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.names import API_VERSION, KIND
from di_operator.lifecycle.observed import pod_state
from di_operator.lifecycle.observed.pod_cache import PodCache
from di_operator.lifecycle.observed.pod_state import PodState
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.sources import Sources
from di_operator.lifecycle.read import read_snapshot
from di_operator.lifecycle.vocabulary.rules import Case, Rule, rule_for
from tests.unit.lifecycle.cluster_model import running, task


def raw(uid: str, phase: str = "Running") -> dict[str, Any]:
    return {"metadata": {"name": "x-work-0", "uid": uid}, "status": {"phase": phase}}


def test_a_pod_that_is_the_same_object_is_not_read_again() -> None:
    read = PodCache(size=8)
    seen = raw("1")
    assert read(seen) is read(seen)
    assert read(seen) == Pod.read(seen)


def test_a_replaced_pod_is_read_again() -> None:
    read = PodCache(size=8)
    assert [read(raw("1", phase)).phase for phase in ("Running", "Failed")] == ["Running", "Failed"]


def test_the_pods_met_first_are_forgotten_first() -> None:
    read = PodCache(size=2)
    one, two, three = raw("1"), raw("2"), raw("3")
    first, second = read(one), read(two)
    read(three)
    assert read(two) is second
    assert read(one) is not first


def test_a_deleted_pod_leaves_the_cache() -> None:
    read = PodCache(size=2)
    one, two = raw("1"), raw("2")
    first = read(one)
    read.follow("ADDED", two)
    read.follow("DELETED", two)
    read.follow("ADDED", raw("3"))
    assert read(one) is first


def test_a_forgotten_pod_holds_no_other_pod_back() -> None:
    read = PodCache(size=2)
    pending, first, second = raw("1", "Pending"), raw("2"), raw("3")
    read(pending)
    assert read.is_ahead(first)
    read(second)
    assert not read.is_ahead(first)


def test_equal_pods_share_what_their_spec_and_status_say(monkeypatch: pytest.MonkeyPatch) -> None:
    read = PodCache(size=8)
    spec, status = {"nodeName": "n"}, {"phase": "Running"}
    first = read({**raw("1"), "spec": spec, "status": status})
    monkeypatch.delattr(PodState, "read")
    second = read({**raw("2"), "spec": spec, "status": status})
    assert (second.node, second.phase, second.uid) == (first.node, first.phase, "2")


def test_pods_with_the_identical_references_share_their_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = PodCache(size=8)
    job = {"apiVersion": API_VERSION, "kind": KIND, "controller": True, "name": "x", "uid": "j"}
    references = [job]
    first, second, other = raw("1"), raw("2"), raw("3")
    first["metadata"]["ownerReferences"] = second["metadata"]["ownerReferences"] = references
    assert read(first).owner == job
    monkeypatch.delattr(pod_state, "controlling_job")
    assert (read(second).owner, read(other).owner) == (job, None)


def test_a_snapshot_is_the_same_from_remembered_pods() -> None:
    cluster = running(task("collector", 3))
    bodies = list(cluster.pods.values())
    read = PodCache(size=8)

    def build(**reader: Any) -> Snapshot:
        return read_snapshot(cluster.job, Sources(pods=bodies), **reader)

    assert build(read_pod=read) == build(read_pod=read) == build()


def test_of_pods_that_failed_alike_the_rules_are_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = running(task("learner", 9))
    cluster.fail(*cluster.pods).evict("x-learner-3")
    asked: list[Case] = []

    def note(case: Case) -> Rule:
        asked.append(case)
        return rule_for(case)

    monkeypatch.setattr("di_operator.lifecycle.observed.pods.rule_for", note)
    snapshot = cluster.snapshot()
    assert [pod.name for pod in snapshot.disrupted] == ["x-learner-3"]
    assert len(snapshot.failed) == 8
    assert [bool(case.pod_conditions) for case in asked] == [False, True]
