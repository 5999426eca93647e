"""What counts as a trace left by a fault, and what does not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from di_kube.client import KubeClient
from di_kube.resources import DIJOBS, Resource
from tools.faults.footprint import Footprint, complaints, differing, read_state
from tools.faults.oracle import Baseline, differences
from tools.faults.plan import Plan

CONDITIONS = "dijobs/a.status.conditions"
STATE = {
    "dijobs/a.status.phase": "Running",
    f"{CONDITIONS}[Running].status": "True",
    f"{CONDITIONS}[Running].message": "2 pods ready",
    f"{CONDITIONS}[Starting].status": "False",
    f"{CONDITIONS}[Starting].message": "created 2 pods",
    "pods/a-work-0.status.podIP": "10.0.0.1",
}
CLEAN = Footprint(
    state=STATE,
    creates={"pods/a-work-0": 1},
    pods={"a-work-0": 1},
    events={("Normal", "JobRunning"): 1, ("Warning", "JobRestarting"): 1},
)
BASELINE = Baseline(
    clean=CLEAN,
    mask=frozenset({"pods/a-work-0.status.podIP"}),
    counts={"creates": {"pods/a-work-0": (1, 1)}, "pods": {"a-work-0": (1, 1)}, "deletes": {}},
)


def found(*, ends: str | None = None, **changes: Any) -> list[str]:
    values = {name: getattr(CLEAN, name) for name in ("state", "creates", "pods", "events")}
    footprint = Footprint(**{**values, **changes})
    return list(differences(footprint, BASELINE, Plan(workload="success", ends=ends)))


ALLOWED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "masked": {"state": {**STATE, "pods/a-work-0.status.podIP": "10.0.0.9"}},
    "history": {"state": {**STATE, f"{CONDITIONS}[Starting].message": "2 pods there"}},
    "a wait": {"state": {**STATE, f"{CONDITIONS}[Pending].status": "False"}},
    "an Event of a wait": {"events": {**CLEAN.events, ("Normal", "JobPending"): 1}},
    "a late node": {"events": {**CLEAN.events, ("Warning", "Unschedulable"): 2}},
    "a lost Event": {"events": {("Warning", "JobRestarting"): 1}},
}
FORBIDDEN: dict[str, dict[str, Any]] = {
    "another phase": {"state": {**STATE, "dijobs/a.status.phase": "Failed"}},
    "another condition": {"state": {**STATE, f"{CONDITIONS}[Running].message": "1 pod ready"}},
    "one pod too many": {"state": {**STATE, "pods/a-work-1.kind": "Pod"}},
    "nothing left": {"state": {}},
    "created twice": {"creates": {"pods/a-work-0": 2}},
    "deleted": {"deletes": {"pods/a-work-0": 1}},
    "two pods of a name": {"pods": {"a-work-0": 2}},
    "a failure reported twice": {"events": {("Warning", "JobRestarting"): 2}},
    "a Warning": {"events": {("Warning", "QuotaExceeded"): 1}},
    "an Event of a phase it did not pass": {"events": {("Normal", "JobRescheduling"): 1}},
}


@pytest.mark.parametrize("changes", ALLOWED.values(), ids=ALLOWED)
def test_a_fault_may_leave(changes: dict[str, Any]) -> None:
    assert found(**changes) == []


@pytest.mark.parametrize("changes", FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_fault_may_not_leave(changes: dict[str, Any]) -> None:
    assert found(**changes)


def test_a_job_that_must_fail_leaves_no_pod_and_creates_none_again() -> None:
    failed: dict[str, Any] = {
        "state": {"dijobs/a.status.phase": "Failed"},
        "ends": "InvalidTemplate",
    }
    assert found(**failed) == []
    assert found(**failed, pods={}) == []
    assert found(ends="InvalidTemplate")
    assert found(**failed, pods={"a-work-0": 2}) == ["pods of a-work-0: 2, clean 1 at most"]


def test_paths_that_differ_between_clean_runs_are_not_compared() -> None:
    assert differing([{"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"a": "1"}]) == {"b"}


def test_tracebacks_and_errors_are_complaints() -> None:
    log = '{"event":"watch failed","level":"warning"}\n{"event":"exiting","level":"error"}\n'
    assert list(complaints(log)) == []
    assert len(list(complaints(log + '{"event":"x","level":"error"}\nTraceback (most'))) == 2


class OneJob:
    """An API server that has one job, of namespace f-7."""

    def __init__(self, status: dict[str, Any]) -> None:
        self.found = {"metadata": {"name": "a", "namespace": "f-7"}, "status": status}

    async def list(self, resource: Resource, *_: Any, **__: Any) -> tuple[list[Any], str]:
        return ([self.found] if resource == DIJOBS else []), ""


def test_a_uid_is_masked_in_any_namespace() -> None:
    uid = "58815cdf-7f75-4275-a949-59fb8cb66c1c"
    status = {"pod": uid, "member": f"{uid}/1"}
    client = cast(KubeClient, OneJob(status))
    state = asyncio.run(read_state(client, "f-7"))
    assert state["dijobs/a.status.pod"] == "<uid>"
    assert state["dijobs/a.status.member"] == "<uid>/1"
    assert state["dijobs/a.metadata.namespace"] == "<namespace>"
