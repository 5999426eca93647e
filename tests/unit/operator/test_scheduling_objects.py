"""Objects for schedulers at the API server: when they are looked at, and what its answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.kube.errors import ApiError, Conflict, Forbidden, NotFound, Unavailable
from di_api.kube.resources import DIJOBS, PODS
from di_api.spec import GangScheduler
from di_operator.builders.pod_group import KINDS
from tests.unit.operator.test_reconciler import Bench

Object = dict[str, Any]
GROUPS = KINDS[GangScheduler.VOLCANO].resource
GROUP = ("PodGroup", "ns", "a")


def bench() -> Bench:
    made = Bench()
    made.submit(scheduling={"gangScheduler": "volcano"})
    return made


def settle(bench: Bench) -> None:
    """Reconcile until the job is left alone."""
    for _ in range(6):
        if bench.reconcile() != 0.0:
            return
    raise AssertionError("there is always more to do")


def calls(bench: Bench) -> dict[str, int]:
    return {verb: n for (verb, kind), n in bench.api.calls.items() if kind == GROUPS.kind}


def told(bench: Bench) -> Object:
    found = bench.status
    return next(each for each in found["conditions"] if each["type"] == found["phase"])


def run(bench: Bench) -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for index in range(2):
        pod = bench.api.objects["Pod", "ns", f"a-work-{index}"]
        bench.known.observe(PODS, bench.api.put(PODS, "ns", {**pod, "status": ready}))
    settle(bench)
    assert bench.status["phase"] == "Running"


def test_it_is_looked_at_and_made_once_and_told_when_all_pods_are_there() -> None:
    made = bench()
    settle(made)
    assert calls(made) == {"get": 1, "create": 1, "patch": 1}
    assert made.api.objects[GROUP]["spec"]["minMember"] == 2


def test_it_is_looked_at_often_while_the_job_waits_and_seldom_once_it_runs() -> None:
    made = bench()
    settle(made)
    made.seconds = 14.0
    settle(made)
    assert calls(made)["get"] == 1
    made.seconds = 15.0
    settle(made)
    assert calls(made)["get"] == 2
    run(made)
    made.seconds = 44.0
    settle(made)
    assert calls(made)["get"] == 2
    made.seconds = 45.0
    settle(made)
    assert calls(made)["get"] == 3


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(NotFound, "SchedulingKindMissing", id="a kind that nobody serves"),
        pytest.param(Forbidden, "SchedulingObjectRefused", id="no right to it"),
    ],
)
def test_a_group_that_cannot_be_made_keeps_the_pods_away(
    error: type[ApiError], reason: str
) -> None:
    made = bench()

    def refuse(verb: str, kind: str, name: str) -> ApiError | None:
        return error(kind=kind, name=name, code=404) if kind == GROUPS.kind else None

    made.api.before = refuse
    made.reconcile()
    assert told(made)["reason"] == reason
    assert "PodGroup (scheduling.volcano.sh/v1beta1) a" in told(made)["message"]
    assert made.api.calls["create", "Pod"] == 0


def test_a_look_that_fails_is_tried_again() -> None:
    made = bench()

    def away(verb: str, kind: str, name: str) -> ApiError | None:
        return Unavailable(kind=kind, name=name, code=503) if kind == GROUPS.kind else None

    made.api.before = away
    with pytest.raises(Unavailable):
        made.reconcile()
    assert made.api.calls["create", "Pod"] == 0


def test_one_that_changed_since_it_was_seen_is_looked_at_again() -> None:
    made = bench()
    settle(made)
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
    settle(made)
    assert conflicts == ["a"]
    assert made.api.calls["get", GROUPS.kind] == run_again + 1
    assert made.api.objects[GROUP]["spec"]["minMember"] == 3
    assert made.api.objects[GROUP]["spec"]["scheduled"] is True


def test_one_of_somebody_else_is_not_touched() -> None:
    made = bench()
    theirs = made.api.put(GROUPS, "ns", {"metadata": {"name": "a"}, "spec": {"minMember": 9}})
    made.reconcile()
    assert told(made)["reason"] == "SchedulingObjectRefused"
    assert told(made)["message"].endswith("exists and does not belong to this job")
    assert made.api.objects[GROUP] == theirs
