"""Pods that stand by: what is refused, how many a job may have, and where one serves."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.names import standby_name, task_of_pod
from di_api.spec.bounds import MAX_PODS
from di_api.stand_ins import as_status, read_stand_ins, serving_pod, standby_number
from di_api.validation import total_errors, validate_job, validate_update
from tests.unit.api.jobs import Job, job, task
from tests.unit.api.refusals import refused

BOUNDS: Job = {"minReplicas": 1, "maxReplicas": 4}


def warm(**fields: Any) -> Job:
    return task(**{"replicas": 2, "standby": 1, **fields})


BAD = refused(
    job(warm()),
    """
(preemptible=true) spec.tasks[0].standby: 1: does not go with preemptible: the allocator gives nodes
  to replicas alone
(scheduling.gang=true) spec.tasks[0].standby: 1: does not go with scheduling.gang, whose pods start
  all together
(tasks[0].podsPerReplica=2) spec.tasks[0].standby: 1: does not go with podsPerReplica above 1: a
  replica is replaced as a whole
(tasks[0].minReplicas=1; tasks[0].elastic={}) spec.tasks[0].standby: 1: does not go with elastic:
  the job runs without whoever is lost there
(tasks[0].processGroup={}) spec.tasks[0].standby: 1: needs a processGroup that is elastic and of
  framework none, whose members learn their ranks from its generation, or none at all
(tasks[0].processGroup={framework: torch, elastic: true}; tasks[0].minReplicas=1;
  tasks[0].maxReplicas=4) spec.tasks[0].standby: 1: needs a processGroup that is elastic and of
  framework none, whose members learn their ranks from its generation, or none at all
(tasks[0].nodeCheck={}) spec.tasks[0].standby: 1: does not go with nodeCheck, whose pods know each
  other by their ranks
(tasks[0].ports=[{name: a, scope: Job}, {name: b}]) spec.tasks[0].ports[1].scope: "Pod": must be Job
  in a task with standby: numbers of scope Pod follow from ranks
(tasks[1]={type: none, template: {spec: {containers: [{name: a}]}}}) spec.tasks[1].name:
  "learner-standby": the pods that stand by for spec.tasks[0] are named so; choose another name
spec.tasks[0].standby: 65: must be 64 or less
spec.tasks[0].standby: -1: must be 0 or more
spec.tasks[0].standby: "1": must be a whole number, 0 or more
""",
)


@pytest.mark.parametrize(("message", "bad"), BAD)
def test_standby_pods_beside_what_excludes_them_are_refused(message: str, bad: Job) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]


GOOD = {
    "no group at all": job(warm()),
    "an elastic group that knows no framework": job(warm(**BOUNDS, processGroup={"elastic": True})),
    "a Service": job(warm(service={"ports": [{"name": "http", "port": 80}]})),
    "ports that are the same for all": job(warm(ports=[{"name": "a", "scope": "Job"}])),
    "none, with whatever": job(
        warm(standby=0, podsPerReplica=2), task("none", name="learner-standby"), preemptible=True
    ),
    "a task named likewise": job(warm(), task("none", name="learner-standbys")),
}


@pytest.mark.parametrize("good", GOOD.values(), ids=GOOD)
def test_standby_pods_beside_what_allows_them_are_accepted(good: Job) -> None:
    assert validate_job(good) == []


def test_the_number_of_standby_pods_may_not_change() -> None:
    old, new = job(warm()), job(warm(standby=2))
    assert [error.path for error in validate_update(old, new)] == ["spec.tasks[0].standby"]


@pytest.mark.proves("dijob.md#how-large-a-job-may-be/pods-of-each-task-the-larger-of-replicas")
def test_standby_pods_count_among_the_pods_of_a_job() -> None:
    assert not [*total_errors(job(warm(replicas=MAX_PODS - 64, standby=64))["spec"])]
    (error,) = validate_job(job(warm(replicas=MAX_PODS - 63, standby=64)))
    assert error.passes == ("pods", MAX_PODS + 1)


def test_names_of_standby_pods_have_to_fit() -> None:
    suffix = len("-learner-standby-2")
    assert validate_job(job(warm(), name="x" * (63 - suffix))) == []
    (error,) = validate_job(job(warm(), name="x" * (64 - suffix)))
    assert error.path == "metadata.name"
    # All ten of them may have a place, and ten more stand by.
    (error,) = validate_job(job(warm(replicas=10), name="x" * (63 - suffix)))
    assert "-learner-standby-10" in error.message


@pytest.mark.parametrize(
    ("pod", "number"),
    [
        ("x-work-standby-0", 0),
        ("x-work-standby-12", 12),
        ("x-work-standby-00", None),
        ("x-work-standby-", None),
        ("x-work-standby--1", None),
        ("x-work-standby-\u0661", None),
        ("x-work-standby-99999", None),
        ("x-work-0", None),
        ("x-other-standby-0", None),
    ],
)
def test_the_number_of_a_standby_pod_is_in_its_name(pod: str, number: int | None) -> None:
    assert standby_number("x", "work", pod) == number
    if number is not None:
        assert standby_name("x", "work", number) == pod


def test_the_task_of_a_standby_pod_is_in_its_name() -> None:
    assert task_of_pod("x", "x-work-standby-3", (), {"work"}) == "work"
    # Without such pods it is a task of that name.
    assert task_of_pod("x", "x-work-standby-3") == "work-standby"


def test_promotions_are_read_as_they_were_written() -> None:
    found = {"work": {10: "x-work-standby-1", 2: "x-work-standby-0"}}
    status = {"standIns": as_status(found)}
    assert list(status["standIns"]["work"]) == ["2", "10"]
    assert read_stand_ins("x", status) == found
    assert serving_pod("x", "work", 2, found) == "x-work-standby-0"
    assert serving_pod("x", "work", 3, found) == "x-work-3"
    assert serving_pod("x", "other", 2, found) == "x-other-2"


@pytest.mark.parametrize("status", [None, 1, [], {}, {"standIns": 1}, {"standIns": {"a": None}}])
def test_a_status_without_promotions_names_none(status: object) -> None:
    assert read_stand_ins("x", status) == {}


def test_a_standby_pod_is_promoted_to_one_index_alone() -> None:
    status = {"standIns": {"work": {"0": "x-work-standby-0", "1": "x-work-standby-0"}}}
    assert read_stand_ins("x", status) == {"work": {0: "x-work-standby-0"}}
