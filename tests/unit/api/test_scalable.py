"""Which tasks may be scaled on their own."""

from __future__ import annotations

import pytest

from di_api.defaults import with_defaults
from di_api.spec import Task
from di_api.spec.reading import read
from di_api.validation import validate_job
from tests.unit.api.jobs import Job, job, task


def errors(body: Job) -> list[str]:
    return [f"{error.path}: {error.message}" for error in validate_job(body)]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        pytest.param(job(task(scalable=True, maxReplicas=4)), [], id="with an upper bound"),
        pytest.param(job(task(scalable=False), preemptible=True), [], id="not scalable"),
        pytest.param(
            job(task(scalable=True)),
            [
                "spec.tasks[0].scalable: needs maxReplicas: what is written beyond the bounds is "
                "refused"
            ],
            id="without an upper bound",
        ),
        pytest.param(
            job(task(scalable=True, maxReplicas=4), preemptible=True),
            [
                "spec.tasks[0].scalable: does not go with preemptible: the allocator chooses how "
                "many replicas there are, and an autoscaler would choose others"
            ],
            id="whose replicas the allocator chooses",
        ),
    ],
)
def test_a_task_that_is_scalable(body: Job, wrong: list[str]) -> None:
    assert errors(body) == wrong


def test_the_field_is_read_and_not_filled_in() -> None:
    assert read(Task, task(name="a", scalable=True, maxReplicas=4), "a").scalable
    assert not read(Task, task(name="a"), "a").scalable
    assert "scalable" not in with_defaults(job(task())["spec"])["tasks"][0]
