"""Which jobs an idlePolicy can scale down."""

from __future__ import annotations

import pytest

from di_api.validation import validate_job
from tests.unit.api.jobs import Job, job, task
from tests.unit.api.refusals import refused

SCALES = {"waitingShare": 80, "action": "ScaleDown"}
GOOD = job(task(replicas=3, minReplicas=1, maxReplicas=4), task("collector"), idlePolicy=SCALES)
BAD = refused(
    GOOD,
    """
(preemptible=true) spec.idlePolicy.action: "ScaleDown": the allocator chooses how many learners
  there are; Notify and Suspend are possible
(tasks[0].minReplicas=null) spec.idlePolicy.action: "ScaleDown": needs a task of type learner with
  minReplicas that is not scalable and has no process group of fixed size
(tasks[0].scalable=true) spec.idlePolicy.action: "ScaleDown": needs a task of type learner with
  minReplicas that is not scalable and has no process group of fixed size
(tasks[0].processGroup={framework: torch}) spec.idlePolicy.action: "ScaleDown": needs a task of type
  learner with minReplicas that is not scalable and has no process group of fixed size
(tasks[0].type=evaluator) spec.idlePolicy.action: "ScaleDown": needs a task of type learner with
  minReplicas that is not scalable and has no process group of fixed size
""",
)


@pytest.mark.proves("lifecycle.md#fewer-learners")
@pytest.mark.parametrize(("message", "bad"), BAD)
def test_scale_down_needs_a_learner_task_that_can_be_scaled(message: str, bad: Job) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]


@pytest.mark.proves("lifecycle.md#idle-gpus")
def test_a_policy_needs_a_share() -> None:
    bad = job(task(), idlePolicy={"seconds": 60})
    assert [str(error) for error in validate_job(bad)] == [
        "spec.idlePolicy: an object: needs waitingShare or gpuIdleShare"
    ]


@pytest.mark.parametrize(
    "good",
    [
        GOOD,
        job(
            task(
                minReplicas=1, maxReplicas=4, processGroup={"framework": "torch", "elastic": True}
            ),
            idlePolicy=SCALES,
        ),
        job(task(), idlePolicy={"gpuIdleShare": 95}),
        job(task(), preemptible=True, idlePolicy={**SCALES, "action": "Suspend"}),
    ],
)
def test_other_jobs_are_accepted(good: Job) -> None:
    assert validate_job(good) == []
