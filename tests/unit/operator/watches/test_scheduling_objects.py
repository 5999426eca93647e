"""Objects for schedulers at the API server: when they are looked at, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.spec import GangScheduler
from di_kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unavailable,
)
from di_kube.resources import DIJOBS
from di_operator.builders.pod_group import KINDS
from di_operator.process.controller import Outdated
from tests.unit.operator.reconciling import Bench

Object = dict[str, Any]
GROUPS = KINDS[GangScheduler.VOLCANO].resource
GROUP = ("PodGroup", "ns", "a")


def bench() -> Bench:
    made = Bench()
    made.submit(scheduling={"gangScheduler": "volcano"})
    return made


def calls(bench: Bench) -> dict[str, int]:
    return {verb: n for (verb, kind), n in bench.api.calls.items() if kind == GROUPS.kind}


def test_a_group_is_read_and_created_once_and_patched_when_pods_exist() -> None:
    made = bench()
    made.settle()
    assert calls(made) == {"get": 1, "create": 1, "patch": 1}
    assert made.api.objects[GROUP]["spec"]["minMember"] == 2


def test_a_group_is_read_often_while_the_job_waits_and_rarely_after() -> None:
    made = bench()
    made.settle()
    for seconds, reads in ((14.0, 1), (15.0, 2), (44.0, 2), (45.0, 3)):
        if seconds == 44.0:
            made.run_pods()
        made.seconds = seconds
        made.settle()
        assert calls(made)["get"] == reads


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(NotFound, "SchedulingKindMissing", id="a kind that is not served"),
        pytest.param(Forbidden, "SchedulingObjectRefused", id="no right to it"),
    ],
)
def test_no_pods_are_created_without_their_group(error: type[ApiError], reason: str) -> None:
    made = bench()
    made.refuse(error, kind=GROUPS.kind)
    made.reconcile()
    assert made.condition["reason"] == reason
    assert "PodGroup (scheduling.volcano.sh/v1beta1) a" in made.condition["message"]
    assert made.api.calls["create", "Pod"] == 0


def test_a_failed_read_of_a_group_is_retried() -> None:
    made = bench()
    made.refuse(Unavailable, kind=GROUPS.kind)
    with pytest.raises(Unavailable):
        made.reconcile()
    assert made.api.calls["create", "Pod"] == 0


def test_a_group_that_changed_since_its_read_is_read_again() -> None:
    made = bench()
    made.settle()
    made.seconds = 1.0
    group = made.api.objects[GROUP]
    made.api.put(GROUPS, "ns", {**group, "spec": {**group["spec"], "scheduled": True}})
    del made.known.objects["Pod", "a-work-1"]
    del made.api.objects["Pod", "ns", "a-work-1"]
    run_again = made.api.calls["get", GROUPS.kind]
    conflicts: list[str] = []

    def once(verb: str, kind: str, name: str) -> ApiError | None:
        if (verb, kind) == ("patch", GROUPS.kind) and not conflicts:
            conflicts.append(name)
            return Conflict(kind=kind, name=name, code=409)
        return None

    made.api.before = once
    job = made.api.objects["DIJob", "ns", "a"]
    (work,) = job["spec"]["tasks"]
    spec = {**job["spec"], "tasks": [{**work, "replicas": 3}]}
    changed = {**job, "spec": spec, "metadata": {**job["metadata"], "generation": 2}}
    made.known.observe(DIJOBS, made.api.put(DIJOBS, "ns", changed))
    made.settle()
    assert conflicts == ["a"]
    assert made.api.calls["get", GROUPS.kind] == run_again + 1
    assert made.api.objects[GROUP]["spec"]["minMember"] == 3
    assert made.api.objects[GROUP]["spec"]["scheduled"] is True


def test_a_foreign_group_is_not_changed() -> None:
    made = bench()
    theirs = made.api.put(GROUPS, "ns", {"metadata": {"name": "a"}, "spec": {"minMember": 9}})
    made.reconcile()
    assert made.condition["reason"] == "SchedulingObjectRefused"
    assert made.condition["message"].endswith("exists and does not belong to this job")
    assert made.api.objects[GROUP] == theirs


def of_job(made: Bench, uid: str) -> dict[str, Any]:
    job = made.api.objects["DIJob", "ns", "a"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": "a", "uid": uid}
    return {"metadata": {"name": "a", "ownerReferences": [{**owner, "controller": True}]}}


@pytest.mark.parametrize("is_ours", [True, False], ids=["of the job", "of an earlier one"])
def test_a_group_made_after_the_read_is_taken_if_it_is_the_jobs(is_ours: bool) -> None:
    made = bench()
    uid = made.api.objects["DIJob", "ns", "a"]["metadata"]["uid"] if is_ours else "earlier"

    def appear(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("create", GROUPS.kind) and GROUP not in made.api.objects:
            made.api.put(GROUPS, "ns", of_job(made, uid))

    made.api.before = appear
    if is_ours:
        made.settle()
        assert made.api.calls["create", "Pod"] == 2
    else:
        with pytest.raises(Outdated, match="of an earlier job has to go first"):
            made.reconcile()
        assert made.api.calls["create", "Pod"] == 0


def test_a_group_that_is_gone_at_the_second_read_is_decided_again() -> None:
    made = bench()
    met: list[str] = []

    def exists_once(verb: str, kind: str, name: str) -> ApiError | None:
        if (verb, kind) == ("create", GROUPS.kind) and not met:
            met.append(name)
            return AlreadyExists(kind=kind, name=name, code=409)
        return None

    made.api.before = exists_once
    made.settle()
    assert calls(made)["create"] == 2
    assert GROUP in made.api.objects


@pytest.mark.parametrize("error", [Forbidden, Invalid])
def test_a_refused_change_of_a_group_is_reported(error: type[ApiError]) -> None:
    made = bench()
    made.refuse(error, "no right to it", verb="patch", kind=GROUPS.kind)
    made.settle()
    (event,) = [each for each in made.events if each.reason == "SchedulingObjectRefused"]
    assert event.message.endswith("a: no right to it")
    assert made.api.calls["create", "Pod"] == 2
