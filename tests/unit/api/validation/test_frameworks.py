"""What a framework cannot do is refused with its reason, and anything else is admitted."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.frameworks import FRAMEWORKS
from di_api.spec import Framework
from di_api.validation import validate_job
from di_api.validation.task.framework import wrong_clusters, wrong_framework
from di_api.validation.tasks import Tasks
from tests.unit.api.jobs import job, task

BOUNDS = {"minReplicas": 1, "maxReplicas": 3}


def refusals(framework: Framework, **group: Any) -> list[str]:
    task = {**BOUNDS, "name": "worker", "processGroup": {"framework": framework.value, **group}}
    return [str(error) for error in wrong_framework("t", task)]


@pytest.mark.proves("process-groups.md#frameworks/*")
@pytest.mark.parametrize(
    ("framework", "has_processes", "is_elastic"),
    [
        (Framework.TORCH, True, True),
        (Framework.JAX, False, False),
        (Framework.TENSORFLOW, False, True),
        (Framework.PADDLE, True, False),
        (Framework.XGBOOST, False, False),
        (Framework.MPI, True, False),
        (Framework.NONE, True, True),
    ],
)
def test_a_framework_has_the_processes_and_sizes_that_its_row_shows(
    framework: Framework, *, has_processes: bool, is_elastic: bool
) -> None:
    assert (refusals(framework, processesPerReplica=2) == []) is has_processes
    assert (refusals(framework, elastic=True) == []) is is_elastic
    assert refusals(framework, processesPerReplica=1, elastic=False) == []


@pytest.mark.parametrize("framework", Framework)
def test_a_refusal_has_the_reason_of_the_frameworks_declaration(framework: Framework) -> None:
    declared = FRAMEWORKS[framework]
    found = refusals(framework, processesPerReplica=2, elastic=True)
    reasons = (declared.single_process, declared.fixed_size)
    assert len(found) == sum(reason is not None for reason in reasons)
    assert all(any(reason in each for each in found) for reason in reasons if reason)


def cluster(*tasks: dict[str, Any]) -> list[str]:
    """What is refused of a cluster of TensorFlow with tasks of these fields."""
    group = {"framework": "tensorflow"}
    every: Tasks = [
        (f"t{number}", {"processGroup": group, **task}) for number, task in enumerate(tasks)
    ]
    errors = [error for path, task in every for error in wrong_framework(path, task)]
    return [str(error) for error in (*errors, *wrong_clusters(every))]


CHIEF, PS, WORKER, EVALUATOR = ({"name": name} for name in ("chief", "ps", "worker", "evaluator"))
ELASTIC = {"processGroup": {"framework": "tensorflow", "elastic": True}}


@pytest.mark.parametrize(
    "tasks",
    [
        [WORKER],
        [WORKER, EVALUATOR],
        # The chief of a program of its own can train as well.
        [CHIEF, PS],
        [CHIEF, PS, WORKER],
        [CHIEF, PS, WORKER, EVALUATOR],
        [CHIEF, {**PS, **ELASTIC}, {**WORKER, **ELASTIC, "replicas": 256}],
        [CHIEF, PS, WORKER, {"name": "replay", "processGroup": {"framework": "none"}}],
    ],
)
def test_clusters_of_tensorflow_that_work_are_admitted(tasks: list[dict[str, Any]]) -> None:
    assert cluster(*tasks) == []


@pytest.mark.parametrize(
    ("tasks", "refusal"),
    [
        ([{"name": "learner"}], 't0.name: "learner": must be one of chief, worker, ps, evaluator'),
        ([{**CHIEF, "replicas": 2}, PS, WORKER], "t0.replicas: 2: must be 1"),
        ([{**CHIEF, "maxReplicas": 2}, PS, WORKER], "t0.maxReplicas: 2: must be 1"),
        ([WORKER, {**EVALUATOR, "replicas": 2}], "t1.replicas: 2: must be 1"),
        ([{**WORKER, "podsPerReplica": 2}], "t0.podsPerReplica: 2: must be 1"),
        ([{**WORKER, "replicas": 257}], "t0.replicas: 257: must be at most 256"),
        ([{**WORKER, "maxReplicas": 257}], "t0.maxReplicas: 257: must be at most 256"),
        ([CHIEF, WORKER], 't0.name: "chief": needs a task ps'),
        ([PS, WORKER], 't0.name: "ps": needs a task chief'),
        ([{**WORKER, **ELASTIC}], "t0.processGroup.elastic: true: must be false without a task ps"),
        (
            [CHIEF, PS, {**WORKER, **ELASTIC, "vacant": [0]}],
            "t2.vacant: a list of 1: must be empty",
        ),
    ],
)
def test_clusters_of_tensorflow_that_cannot_work_are_refused(
    tasks: list[dict[str, Any]], refusal: str
) -> None:
    (found,) = cluster(*tasks)
    assert found.startswith(refusal)


def test_a_deadline_below_the_default_last_call_names_the_default() -> None:
    group = {"lastCallSeconds": 60, "deadlineSeconds": 30}
    (error,) = validate_job(job(task(processGroup=group)))
    assert error.path == "spec.tasks[0].processGroup.lastCallSeconds"
    assert error.message == "must be at most deadlineSeconds, 30; it is 60 unless set"
