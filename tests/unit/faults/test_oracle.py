"""What counts as a trace left by a fault, and what does not."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from di_api.kube.client import KubeClient
from di_api.kube.resources import DIJOBS, Resource
from tools.faults.footprint import Footprint, complaints, differing, read_state
from tools.faults.oracle import Baseline, differences
from tools.faults.plan import Plan

STATE = {
    "dijobs/a.status.phase": "Running",
    "dijobs/a.status.conditions[Running].status": "True",
    "dijobs/a.status.conditions[Running].message": "2 pods ready",
    "dijobs/a.status.conditions[Starting].status": "False",
    "dijobs/a.status.conditions[Starting].message": "created 2 pods",
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


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state": {**STATE, "pods/a-work-0.status.podIP": "10.0.0.9"}},
        {"state": {**STATE, "dijobs/a.status.conditions[Starting].message": "2 pods there"}},
        {"state": {**STATE, "dijobs/a.status.conditions[Pending].status": "False"}},
        {"events": {**CLEAN.events, ("Normal", "JobPending"): 1}},
        {"events": {("Warning", "JobRestarting"): 1}},
    ],
    ids=["nothing", "masked", "history", "a wait", "a wait told", "an event lost"],
)
def test_what_a_fault_may_leave(changes: dict[str, Any]) -> None:
    assert found(**changes) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"state": {**STATE, "dijobs/a.status.phase": "Failed"}},
        {"state": {**STATE, "dijobs/a.status.conditions[Running].message": "1 pod ready"}},
        {"state": {**STATE, "pods/a-work-1.kind": "Pod"}},
        {"state": {}},
        {"creates": {"pods/a-work-0": 2}},
        {"deletes": {"pods/a-work-0": 1}},
        {"pods": {"a-work-0": 2}},
        {"events": {("Warning", "JobRestarting"): 2}},
        {"events": {("Warning", "QuotaExceeded"): 1}},
        {"events": {("Normal", "JobRescheduling"): 1}},
    ],
    ids=[
        "another phase",
        "another present condition",
        "a pod too many",
        "nothing left",
        "created twice",
        "deleted",
        "two pods of a name",
        "a failure told twice",
        "a warning",
        "a phase that was not passed",
    ],
)
def test_what_a_fault_may_not_leave(changes: dict[str, Any]) -> None:
    assert found(**changes)


def test_a_job_that_had_to_fail_leaves_nothing_running_and_makes_no_pod_again() -> None:
    failed: dict[str, Any] = {
        "state": {"dijobs/a.status.phase": "Failed"},
        "ends": "InvalidTemplate",
    }
    assert found(**failed) == []
    assert found(**failed, pods={}) == []
    assert found(ends="InvalidTemplate")
    assert found(**failed, pods={"a-work-0": 2}) == ["pods of a-work-0: 2, clean 1 at most"]


def test_only_paths_that_are_the_same_in_all_clean_runs_are_compared() -> None:
    assert differing([{"a": "1", "b": "1"}, {"a": "1", "b": "2"}, {"a": "1"}]) == {"b"}


def test_tracebacks_and_errors_are_complaints_and_warnings_are_not() -> None:
    log = '{"event":"watch failed","level":"warning"}\n{"event":"exiting","level":"error"}\n'
    assert list(complaints(log)) == []
    assert len(list(complaints(log + '{"event":"x","level":"error"}\nTraceback (most'))) == 2


class OneJob:
    """An API server that has one job, of namespace f-7."""

    def __init__(self, status: dict[str, Any]) -> None:
        self.found = {"metadata": {"name": "a", "namespace": "f-7"}, "status": status}

    async def list(self, resource: Resource, *_: Any, **__: Any) -> tuple[list[Any], str]:
        return ([self.found] if resource == DIJOBS else []), ""


def test_a_uid_is_one_whatever_the_namespace_is_called() -> None:
    uid = "58815cdf-7f75-4275-a949-59fb8cb66c1c"
    status = {"pod": uid, "member": f"{uid}/1"}
    client = cast(KubeClient, OneJob(status))
    state = asyncio.run(read_state(client, "f-7"))
    assert state["dijobs/a.status.pod"] == "<uid>"
    assert state["dijobs/a.status.member"] == "<uid>/1"
    assert state["dijobs/a.metadata.namespace"] == "<namespace>"
