"""What of a job may change, and when."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from di_api.validation import validate_job, validate_update
from tests.unit.api.jobs import Job, job, leader, of_spec, task, with_template

FIXED = "may not change while the job exists; delete it and create it anew"
FINISHED = "may not change, the job has finished"


def changed(old: Job, path: list[str | int], value: Any) -> Job:
    """A copy of `old` with the field at `path` set."""
    new = deepcopy(old)
    target: Any = new
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return new


ALLOWED = {
    "replicas": (["spec", "tasks", 0, "replicas"], 5),
    "minReplicas": (["spec", "tasks", 0, "minReplicas"], 1),
    "maxReplicas": (["spec", "tasks", 0, "maxReplicas"], 9),
    "suspend": (["spec", "suspend"], True),
    "priority": (["spec", "priority"], "high"),
    "backoffLimit": (["spec", "backoffLimit"], 7),
    "cleanPodPolicy": (["spec", "cleanPodPolicy"], "All"),
    "activeDeadlineSeconds": (["spec", "activeDeadlineSeconds"], 60),
    "ttlSecondsAfterFinished": (["spec", "ttlSecondsAfterFinished"], 0),
    "pendingTimeoutSeconds": (["spec", "pendingTimeoutSeconds"], 60),
    "activeDeadlineSeconds of a task": (["spec", "tasks", 0, "activeDeadlineSeconds"], 60),
    "a progress policy": (["spec", "progressPolicy"], {"timeoutSeconds": 60, "action": "Notify"}),
    "a default written out": (["spec", "preemptible"], False),
    "a label": (["metadata", "labels"], {"team": "rl"}),
}


@pytest.mark.parametrize(("path", "value"), ALLOWED.values(), ids=ALLOWED)
def test_may_change_while_the_job_lives(path: list[str | int], value: Any) -> None:
    old = job() | {"status": {"phase": "Running"}}
    assert validate_update(old, changed(old, path, value)) == []


def test_a_leader_may_not_come_to_be_different() -> None:
    image: list[str | int] = ["spec", "containers", 0, "image"]
    old = leader({"spec": {"containers": [{"name": "di-container", "image": "a"}]}})
    new = changed(old, ["spec", "tasks", 0, "leaderTemplatePatch", *image], "b")
    path = "spec.tasks[0].leaderTemplatePatch.spec.containers[0].image"
    assert [str(error) for error in validate_update(old, new)] == [f'{path}: "b": {FIXED}']


IMAGE: list[str | int] = ["spec", "tasks", 0, "template", "spec", "containers", 0, "image"]
REFUSED = {
    "an image": (
        IMAGE,
        "other",
        f'spec.tasks[0].template.spec.containers[0].image: "other": {FIXED}',
    ),
    "the group": (["spec", "group"], "a", f'spec.group: "a": {FIXED}'),
    "preemptible": (["spec", "preemptible"], True, f"spec.preemptible: true: {FIXED}"),
    "the pods of a replica": (
        ["spec", "tasks", 0, "podsPerReplica"],
        2,
        f"spec.tasks[0].podsPerReplica: 2: {FIXED}",
    ),
    "volumes": (
        ["spec", "volumes"],
        [{"name": "data"}],
        f"spec.volumes: a list of 1: {FIXED}",
    ),
    "a task's name": (["spec", "tasks", 0, "name"], "a", f'spec.tasks[0].name: "a": {FIXED}'),
    "a task's type": (
        ["spec", "tasks", 0],
        task("collector", name="learner"),
        f'spec.tasks[0].type: "collector": {FIXED}',
    ),
    "a task that gets a Service": (
        ["spec", "tasks", 0, "service"],
        {"ports": [{"name": "http", "port": 80}]},
        f"spec.tasks[0].service: an object: {FIXED}",
    ),
    "a task that is to drain": (
        ["spec", "tasks", 0, "drain"],
        {"command": ["drain"]},
        f"spec.tasks[0].drain: an object: {FIXED}",
    ),
    "a task that gets a port": (
        ["spec", "tasks", 0, "ports"],
        [{"name": "rpc"}],
        f"spec.tasks[0].ports: a list of 1: {FIXED}",
    ),
    "a task taken away": (
        ["spec", "tasks"],
        [],
        "spec.tasks: []: tasks may not be added or removed while the job exists; it has 1",
    ),
    "a new task": (
        ["spec", "tasks"],
        [task(), task("collector")],
        "spec.tasks: a list of 2: tasks may not be added or removed while the job exists; it has 1",
    ),
    "replicas out of bounds": (
        ["spec", "tasks", 0, "replicas"],
        0,
        "spec.tasks[0].replicas: 0: must be 1 or more",
    ),
    "replicas whose pods would have too long names": (
        ["spec", "tasks", 0, "replicas"],
        4096,
        f'metadata.name: "{"n" * 51}": 51 characters are too many, its pod <name>-learner-4095 '
        f'may have 63; the longest name that fits has 50, such as "{"n" * 50}"',
    ),
}


@pytest.mark.parametrize(("path", "value", "message"), REFUSED.values(), ids=REFUSED)
def test_may_not_change_while_the_job_lives(
    path: list[str | int], value: Any, message: str
) -> None:
    old = job(name="n" * 51) | {"status": {"phase": "Running"}}
    assert message in [str(error) for error in validate_update(old, changed(old, path, value))]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize(("path", "value"), list(ALLOWED.values())[:12], ids=list(ALLOWED)[:12])
def test_nothing_of_the_spec_may_change_once_finished(
    phase: str, path: list[str | int], value: Any
) -> None:
    old = job() | {"status": {"phase": phase}}
    errors = validate_update(old, changed(old, path, value))
    assert [error.message for error in errors] == [FINISHED]
    assert errors[0].path.endswith(str(path[-1]))


def test_a_finished_job_may_be_labelled() -> None:
    old = job() | {"status": {"phase": "Succeeded"}}
    assert validate_update(old, changed(old, ["metadata", "labels"], {"kept": "yes"})) == []


def test_a_job_older_than_a_rule_may_still_lose_its_finalizers() -> None:
    old = job(task(replicas=0))
    new = changed(old, ["metadata", "finalizers"], [])
    assert validate_update(old, new) == []


OLD_ERRORS: dict[str, Job] = {
    "a value out of range": job(ttlSecondsAfterFinished=-1),
    "an unknown field": job(flavour="new"),
    "an unknown field that holds much": job(flavour={"a": [1, {"b": None}]}),
    "tasks in a circle": job(
        task("none", name="a", dependsOn=["b"]), task("none", name="b", dependsOn=["a"])
    ),
    "a reserved label": with_template(labels={"diengine/job": "other"}),
}


@pytest.mark.parametrize("old", OLD_ERRORS.values(), ids=OLD_ERRORS)
def test_what_was_wrong_already_is_no_reason(old: Job) -> None:
    old = old | {"status": {"phase": "Running"}}
    assert validate_job(old) != []
    assert validate_update(old, changed(old, ["spec", "suspend"], True)) == []
    assert validate_update(old, changed(old, ["spec", "tasks", 0, "minReplicas"], 1)) == []


@pytest.mark.parametrize("old", OLD_ERRORS.values(), ids=OLD_ERRORS)
def test_what_is_wrong_anew_is_told_alone(old: Job) -> None:
    new = changed(old, ["spec", "backoffLimit"], -1)
    assert [str(error) for error in validate_update(old, new)] == [
        "spec.backoffLimit: -1: must be 0 or more"
    ]


def test_a_wrong_value_that_changes_has_to_be_right() -> None:
    old = job(task(maxReplicas=0))
    path: list[str | int] = ["spec", "tasks", 0, "maxReplicas"]
    assert "spec.tasks[0].maxReplicas" in [
        error.path for error in validate_update(old, changed(old, path, -1))
    ]
    assert validate_update(old, changed(old, path, 4)) == []


def test_true_is_not_the_one_that_was_wrong_already() -> None:
    old = job(backoffLimit=-1)
    new = changed(old, ["spec", "backoffLimit"], True)
    assert [e.path for e in validate_update(old, new)] == ["spec.backoffLimit"]


def test_a_spec_taken_away_is_refused() -> None:
    assert [str(e) for e in validate_update(job(), of_spec(None))] == ["spec: must be an object"]


def test_a_nesting_deeper_than_python_can_compare() -> None:
    old, new = job(), job()
    for each, end in ((old, 1), (new, 2)):
        deep: Any = end
        for _ in range(100_000):
            deep = [deep]
        each["spec"]["volumes"] = deep
    errors = validate_update(old, new)
    assert errors[0].path.startswith("spec.volumes[0][0][0]")


@pytest.mark.parametrize(
    ("replicas", "most", "is_allowed"),
    [(5, 100_000, True), (2, 50_000, True), (2, 100_001, False)],
    ids=["scaled within its bounds", "bounds lowered", "bounds raised"],
)
def test_a_job_from_before_the_bound_of_pods_may_only_come_nearer_to_it(
    replicas: int, most: int, is_allowed: bool
) -> None:
    old = job(task(replicas=2, maxReplicas=100_000))
    new = job(task(replicas=replicas, maxReplicas=most))
    errors = [error.path for error in validate_update(old, new)]
    assert errors == ([] if is_allowed else ["spec.tasks"])
