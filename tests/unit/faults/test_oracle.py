"""What counts as a trace left by a fault, and what does not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from di_kube.client import KubeClient
from di_kube.resources import DIJOBS, PODS, Resource
from tools.faults.footprint import Footprint, complaints, differing, read_state
from tools.faults.interruption import Aftermath
from tools.faults.oracle import Baseline, differences, interrupted
from tools.faults.plan import Freeze, Plan, Stop

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


@pytest.mark.parametrize(("workload", "allowed"), [("standby", True), ("success", False)])
def test_a_pod_may_be_reported_as_not_ending_where_the_workload_holds_it(
    workload: str, allowed: bool
) -> None:
    reported = replace(CLEAN, events={**CLEAN.events, ("Warning", "PodNotEnding"): 1})
    assert allowed == (not list(differences(reported, BASELINE, Plan(workload=workload))))


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
    log = '{"event": "watch failed", "level": "warning"}\n{"event":"exiting","level":"error"}\n'
    assert list(complaints(f"{log}[]\nno JSON\n")) == []
    wrong = ['{"event": "x", "level": "error"}', '{"event":"x","level":"error"}', "Traceback (most"]
    assert list(complaints(log + "\n".join(wrong))) == wrong


LOST = (
    '{"lease": "di-operator", "error": "Lease f-92/di-operator: no answer Timeout: no answer '
    'within 4 s", "event": "lease not renewed", "level": "warning"}'
)


@pytest.mark.parametrize(
    ("action", "code", "log", "is_wrong"),
    [
        (Stop(answered=True), 0, "", False),
        (Stop(answered=True), 1, "", True),
        (Stop(answered=True), 1, LOST, False),
        (Stop(answered=True), 0, LOST, False),
        (Stop(answered=True), 2, LOST, True),
        (Freeze(answered=True, seconds=20), 1, "", False),
        (Freeze(answered=True, seconds=20), 0, LOST, True),
    ],
)
def test_a_replica_ends_with_0_unless_it_lost_its_lease(
    action: Stop | Freeze, code: int, log: str, is_wrong: bool
) -> None:
    found = Aftermath(
        action=action, exit_code=code, ended=1.0, leads=False, stood_by=True, succeeded=2.0
    )
    assert bool(list(interrupted(found, log))) == is_wrong


class OneObject:
    """An API server that has one object, a job unless told otherwise, of namespace f-7."""

    def __init__(self, status: dict[str, Any], resource: Resource = DIJOBS) -> None:
        self.found = {"metadata": {"name": "a", "namespace": "f-7"}, "status": status}
        self.resource = resource

    async def list(self, resource: Resource, *_: Any, **__: Any) -> tuple[list[Any], str]:
        return ([self.found] if resource == self.resource else []), ""


def test_what_the_scheduler_writes_of_a_pod_is_not_compared() -> None:
    condition = {"type": "PodScheduled", "status": "True", "observedGeneration": 1}
    client = cast(KubeClient, OneObject({"conditions": [condition]}, PODS))
    state = asyncio.run(read_state(client, "f-7"))
    place = "pods/a.status.conditions[PodScheduled]"
    assert {path for path in state if path.startswith(place)} == {
        f"{place}.type",
        f"{place}.status",
    }


def test_a_uid_is_masked_in_any_namespace() -> None:
    uid = "58815cdf-7f75-4275-a949-59fb8cb66c1c"
    status = {"pod": uid, "member": f"{uid}/1"}
    client = cast(KubeClient, OneObject(status))
    state = asyncio.run(read_state(client, "f-7"))
    assert state["dijobs/a.status.pod"] == "<uid>"
    assert state["dijobs/a.status.member"] == "<uid>/1"
    assert state["dijobs/a.metadata.namespace"] == "<namespace>"
