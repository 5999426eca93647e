"""What of a job may change, and when."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from di_api.field_error import FieldError
from di_api.validation import validate_job, validate_update
from tests.unit.api.jobs import Job, job, leader, of_spec, task, with_template
from tests.unit.api.refusals import changed

FIXED = "may not change while the job exists; delete it and create it again"
FINISHED = "may not change, the job has finished"


ALLOWED: list[tuple[str, Any]] = [
    ("spec.tasks[0].replicas", 5),
    ("spec.tasks[0].minReplicas", 1),
    ("spec.tasks[0].maxReplicas", 9),
    ("spec.tasks[0].activeDeadlineSeconds", 60),
    ("spec.suspend", True),
    ("spec.priority", "high"),
    ("spec.backoffLimit", 7),
    ("spec.cleanPodPolicy", "All"),
    ("spec.activeDeadlineSeconds", 60),
    ("spec.ttlSecondsAfterFinished", 0),
    ("spec.pendingTimeoutSeconds", 60),
    ("spec.progressPolicy", {"timeoutSeconds": 60, "action": "Notify"}),
    ("spec.idlePolicy", {"waitingShare": 80, "seconds": 600, "action": "Notify"}),
]
NO_CHANGE: list[tuple[str, Any]] = [
    ("spec.preemptible", False),  # the default, written out
    ("metadata.labels", {"team": "rl"}),
]


@pytest.mark.proves("dijob.md#what-may-change/while-the-job-exists")
@pytest.mark.parametrize(("path", "value"), [*ALLOWED, *NO_CHANGE])
def test_a_field_may_change_while_the_job_runs(path: str, value: Any) -> None:
    old = job() | {"status": {"phase": "Running"}}
    assert validate_update(old, changed(old, path, value)) == []


def test_the_code_of_a_job_may_change_but_not_its_directory() -> None:
    code = {"configMap": "a", "sha256": "0" * 64, "path": "/code"}
    pushed = {**code, "configMap": "b", "sha256": "1" * 64, "requirements": "a", "revision": "b"}
    old, plain = job(code=code) | RUNS, job() | RUNS
    assert validate_update(old, job(code=pushed) | RUNS) == []
    moved = validate_update(old, job(code={**pushed, "path": "/b"}) | RUNS)
    assert [str(error) for error in moved] == [f'spec.code.path: "/b": {FIXED}']
    for before, after in ((old, plain), (plain, old)):
        assert [error.path for error in validate_update(before, after)] == ["spec.code"]
    ended = {"status": {"phase": "Succeeded"}}
    assert FINISHED in str(validate_update(old | ended, job(code=pushed) | ended)[0])


IMAGE = "spec.tasks[0].template.spec.containers[0].image"
LEADERS = "spec.tasks[0].leaderTemplatePatch.spec.containers[0].image"
RUNS = {"status": {"phase": "Running"}}
RUNNING = job(name="n" * 51) | RUNS
LED = leader({"spec": {"containers": [{"name": "di-container", "image": "a"}]}})
COUNT = "tasks may not be added or removed while the job exists; it has 1: learner"
REFUSED: list[tuple[Job, str, Any, str]] = [
    (RUNNING, IMAGE, "other", f'{IMAGE}: "other": {FIXED}'),
    (LED | RUNS, LEADERS, "b", f'{LEADERS}: "b": {FIXED}'),
    (RUNNING, "spec.group", "a", f'spec.group: "a": {FIXED}'),
    (RUNNING, "spec.preemptible", True, f"spec.preemptible: true: {FIXED}"),
    (RUNNING, "spec.tasks[0].podsPerReplica", 2, f"spec.tasks[0].podsPerReplica: 2: {FIXED}"),
    (RUNNING, "spec.volumes", [{"name": "data"}], f"spec.volumes: a list of 1: {FIXED}"),
    (RUNNING, "spec.tasks[0].name", "a", f'spec.tasks[0].name: "a": {FIXED}'),
    (
        RUNNING,
        "spec.tasks[0]",
        task("collector", name="learner"),
        f'spec.tasks[0].type: "collector": {FIXED}',
    ),
    (
        RUNNING,
        "spec.tasks[0].service.ports",
        [{"name": "http", "port": 80}],
        f"spec.tasks[0].service: an object: {FIXED}",
    ),
    (RUNNING, "spec.tasks[0].drain.command", ["a"], f"spec.tasks[0].drain: an object: {FIXED}"),
    (
        RUNNING,
        "spec.tasks[0].ports",
        [{"name": "rpc"}],
        f"spec.tasks[0].ports: a list of 1: {FIXED}",
    ),
    (
        job(volumes=[{"name": "a"}, {"name": "b"}]),
        "spec.volumes",
        [{"name": "a"}],
        f"spec.volumes[1]: {FIXED}",
    ),
    (RUNNING, "spec.tasks", [], f"spec.tasks: []: {COUNT}"),
    (RUNNING, "spec.tasks[1]", task("collector"), f"spec.tasks: a list of 2: {COUNT}"),
    (RUNNING, "spec.tasks[0].replicas", 0, "spec.tasks[0].replicas: 0: must be 1 or more"),
    (
        RUNNING,
        "spec.tasks[0].replicas",
        4096,
        f'metadata.name: "{"n" * 51}": 51 characters are too many, its pod <name>-learner-4095 '
        f'may have 63; the longest name that fits has 50, such as "{"n" * 50}"',
    ),
]


@pytest.mark.proves("dijob.md#what-may-change/while-the-job-exists")
@pytest.mark.parametrize(("old", "path", "value", "message"), REFUSED)
def test_a_field_may_not_change_while_the_job_runs(
    old: Job, path: str, value: Any, message: str
) -> None:
    assert message in [str(error) for error in validate_update(old, changed(old, path, value))]


@pytest.mark.proves("dijob.md#what-may-change/once-it-is-succeeded-or-failed")
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize(("path", "value"), ALLOWED)
def test_the_spec_of_a_finished_job_may_not_change(phase: str, path: str, value: Any) -> None:
    old = job() | {"status": {"phase": phase}}
    (error,) = validate_update(old, changed(old, path, value))
    assert error.message == FINISHED
    assert error.path.startswith(path)


def test_the_metadata_of_a_finished_or_invalid_job_may_change() -> None:
    finished = job() | {"status": {"phase": "Succeeded"}}
    for old in (finished, job(task(replicas=0))):
        new = changed(old, "metadata.labels", {"kept": "yes"})
        assert validate_update(old, changed(new, "metadata.finalizers", [])) == []


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
def test_an_error_that_was_there_before_refuses_no_change(old: Job) -> None:
    old = old | {"status": {"phase": "Running"}}
    assert validate_job(old) != []
    assert validate_update(old, changed(old, "spec.suspend", True)) == []
    assert validate_update(old, changed(old, "spec.tasks[0].minReplicas", 1)) == []


@pytest.mark.parametrize("old", OLD_ERRORS.values(), ids=OLD_ERRORS)
def test_only_new_errors_are_reported(old: Job) -> None:
    new = changed(old, "spec.backoffLimit", -1)
    assert [str(error) for error in validate_update(old, new)] == [
        "spec.backoffLimit: -1: must be 0 or more"
    ]


def test_a_wrong_value_may_only_change_to_a_right_one() -> None:
    old = job(task(maxReplicas=0))
    path = "spec.tasks[0].maxReplicas"
    assert path in [error.path for error in validate_update(old, changed(old, path, -1))]
    assert validate_update(old, changed(old, path, 4)) == []


def test_true_is_another_wrong_value_than_minus_one() -> None:
    old = job(backoffLimit=-1)
    new = changed(old, "spec.backoffLimit", True)
    assert [e.path for e in validate_update(old, new)] == ["spec.backoffLimit"]


def test_all_errors_of_a_change_are_reported() -> None:
    new = job(task(maxReplicas=5000, dependsOn=["ghost"]))
    paths = [error.path for error in validate_update(job(), new)]
    assert paths == ["spec.tasks[0].dependsOn", "spec.tasks", "spec.tasks[0].dependsOn[0]"]
    new = job(backoffLimit=-1)
    assert [str(e) for e in validate_update(of_spec(None), new)] == [*map(str, validate_job(new))]


def test_the_removal_of_a_spec_is_refused() -> None:
    assert [str(e) for e in validate_update(job(), of_spec(None))] == ["spec: must be an object"]


def test_values_nested_deeper_than_python_recurses_are_compared() -> None:
    old, new = job(), job()
    for each, end in ((old, 1), (new, 2)):
        deep: Any = end
        for _ in range(20_000):
            deep = [deep]
        each["spec"]["volumes"] = deep
    errors = validate_update(old, new)
    assert errors[0].path.startswith("spec.volumes[0][0][0]")
    assert errors[0].path.endswith("[0]...")
    assert len(errors[0].path) < 600


@pytest.mark.parametrize(
    ("replicas", "most", "is_allowed"),
    [(5, 100_000, True), (2, 50_000, True), (2, 100_001, False)],
    ids=["scaled within its bounds", "bounds lowered", "bounds raised"],
)
def test_a_job_above_the_bound_of_pods_may_not_grow(
    replicas: int, most: int, is_allowed: bool
) -> None:
    old = job(task(replicas=2, maxReplicas=100_000))
    new = job(task(replicas=replicas, maxReplicas=most))
    errors = [error.path for error in validate_update(old, new)]
    assert errors == ([] if is_allowed else ["spec.tasks"])


def test_a_spec_that_becomes_too_heavy_is_compared_with_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Comparing takes several times as long as reading that the spec is too heavy."""

    def compare(*_: object) -> None:
        raise AssertionError("they are compared")

    monkeypatch.setattr("di_api.validation.update.first_difference", compare)
    heavy = {**job(), "spec": {"tasks": [1.5] * 100_000}}
    (error,) = validate_update(job(), heavy)
    assert error.path == "spec"
    assert "has " in error.message


def _corrected(status: Job, **spec: Any) -> list[FieldError]:
    old = job(task(), task("collector"), **spec) | {"status": status}
    new = deepcopy(old)
    new["spec"]["tasks"][1]["template"]["spec"]["containers"][0]["image"] = "corrected"
    return validate_update(old, new)


@pytest.mark.proves("dijob.md#what-may-change/while-the-job-exists")
def test_the_template_of_a_suspended_job_that_never_started_may_be_corrected() -> None:
    waits = {"phase": "Pending", "conditions": [{"type": "Pending", "status": "True"}]}
    assert _corrected({}, suspend=True) == []
    assert _corrected(waits, suspend=True) == []
    # Pods may be made at this moment.
    (error,) = _corrected(waits)
    assert error.path == "spec.tasks[1].template.spec.containers[0].image"
    assert error.message.endswith("or suspend it first: it has not started")
    ran = {"phase": "Pending", "conditions": [{"type": "Starting", "status": "False"}]}
    assert len(_corrected(ran, suspend=True)) == 1


def test_a_suspension_is_proposed_for_templates_alone() -> None:
    old = job(task())
    new = deepcopy(old)
    new["spec"]["tasks"][0]["podsPerReplica"] = 2
    (error,) = validate_update(old, new)
    assert error.path == "spec.tasks[0].podsPerReplica"
    assert "suspend" not in error.message


def test_a_corrected_template_has_to_be_right() -> None:
    old = job(task(), suspend=True)
    new = deepcopy(old)
    new["spec"]["tasks"][0]["template"]["metadata"] = {"labels": {"user": "a@b"}}
    assert [error.path for error in validate_update(old, new)] == [
        "spec.tasks[0].template.metadata.labels.user"
    ]
