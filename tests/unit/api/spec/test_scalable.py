"""Which tasks may be scaled on their own."""

from __future__ import annotations

import pytest

from di_api.defaults import with_defaults
from di_api.spec import Task
from di_api.spec.reading import read
from di_api.validation import validate_job
from tests.unit.api.jobs import Job, job, task
from tests.unit.api.refusals import refused

BAD = refused(
    job(task(scalable=True)),
    """
(suspend=true) spec.tasks[0].scalable: true: needs maxReplicas: what is written beyond the bounds is
  refused
(preemptible=true; tasks[0].maxReplicas=4) spec.tasks[0].scalable: true: does not go with
  preemptible: the allocator chooses how many replicas there are, and an autoscaler would choose
  others
""",
)


@pytest.mark.parametrize(("message", "bad"), BAD)
def test_a_scalable_task_needs_an_upper_bound_and_no_allocator(message: str, bad: Job) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]


@pytest.mark.proves("teams-autoscalers.md#which-tasks", "dijob.md#spec-tasks/scalable")
@pytest.mark.parametrize(
    "good", [job(task(scalable=True, maxReplicas=4)), job(task(scalable=False), preemptible=True)]
)
def test_a_scalable_task_is_accepted(good: Job) -> None:
    assert validate_job(good) == []


def test_scalable_is_read_and_has_no_default() -> None:
    assert read(Task, task(name="a", scalable=True, maxReplicas=4), "a").scalable
    assert not read(Task, task(name="a"), "a").scalable
    assert "scalable" not in with_defaults(job(task())["spec"])["tasks"][0]
