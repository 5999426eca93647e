"""The response of an idlePolicy to a job that is idle: none, suspension, or one learner less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from di_api.indexes.replicas import left_vacant
from di_api.spec import IdleAction, IdlePolicy, Task, TaskType
from di_operator.kueue.multikueue import prebuilt_workload
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import count_of

REASON_WAITS: Final = "LearnersWait"
REASON_GPUS: Final = "GPUsIdle"
REASON_SUSPENDED: Final = "SuspendedByPolicy"
REASON_SCALED: Final = "ScaledDownByPolicy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDown:
    """A learner task that gets one replica less."""

    task: str
    before: int
    replicas: int
    patch: Mapping[str, Any]
    """A merge patch of the job, with all tasks: it is valid for this version of the job only."""


def scale_down(snapshot: Snapshot) -> ScaleDown | None:
    """Return the step; None if no learner task can lose a replica.

    Learners that wait are too many for what the collectors produce, so the learner task with the
    most replicas above its `minReplicas` loses one. Left out are tasks without `minReplicas`, tasks
    whose replicas an autoscaler or the allocator chooses, and process groups that restart as a
    whole when their size changes.
    """
    spec = snapshot.spec
    if spec is None or spec.preemptible:
        return None
    found = [
        (each.replicas - max(each.min_replicas or 1, 1), -place)
        for place, each in enumerate(spec.tasks)
        if _may_shrink(snapshot, each)
    ]
    spare, place = max(found, default=(0, 0))
    if spare <= 0:
        return None
    task = spec.tasks[-place]
    replicas = task.replicas - 1
    tasks = [*snapshot.job["spec"]["tasks"]]
    left = {key: each for key, each in tasks[-place].items() if key != "vacant"}
    vacant = left_vacant(replicas, task.vacant)
    tasks[-place] = {**left, "replicas": replicas, **({"vacant": [*vacant]} if vacant else {})}
    return ScaleDown(
        task=task.name, before=task.replicas, replicas=replicas, patch={"spec": {"tasks": tasks}}
    )


def _may_shrink(snapshot: Snapshot, task: Task) -> bool:
    is_chosen = task.type is TaskType.LEARNER and task.min_replicas is not None
    return is_chosen and not task.scalable and not snapshot.is_fixed_group(task, is_resized=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The effect of a window that is over."""

    reason: str
    message: str = ""
    patch: Mapping[str, Any] | None = None
    """A merge patch of the job; None: it runs on as it is."""


def response_to_idle(snapshot: Snapshot, policy: IdlePolicy) -> Response:
    """Return the response to a window that is over."""
    # MultiKueue would not see that the copy of a job in this cluster has changed.
    is_ours = not prebuilt_workload(snapshot.job)
    idle = REASON_GPUS if policy.waiting_share is None else REASON_WAITS
    match policy.action:
        case IdleAction.NOTIFY:
            return Response(reason=idle)
        case IdleAction.SUSPEND:
            if snapshot.suspend_idle_jobs and is_ours:
                return _SUSPENDS
            return Response(reason=idle, message=f"{_RUNS_ON}: {_MAY_NOT} suspend it")
        case IdleAction.SCALE_DOWN:
            if not (snapshot.scale_down_idle_jobs and is_ours):
                return Response(reason=idle, message=f"{_RUNS_ON}: {_MAY_NOT} scale it")
            step = scale_down(snapshot)
            return Response(reason=idle, message=_AT_MINIMUM) if step is None else _scales(step)
        case _:
            assert_never(policy.action)


_RUNS_ON: Final = "it runs on"
_MAY_NOT: Final = "this operator may not"
_SUSPENDS: Final = Response(
    reason=REASON_SUSPENDED,
    message="its idlePolicy suspends it",
    patch={"spec": {"suspend": True}},
)
_AT_MINIMUM: Final = f"{_RUNS_ON}: none of its learner tasks can have fewer replicas"


def _scales(step: ScaleDown) -> Response:
    return Response(
        reason=REASON_SCALED,
        message=step_message(step.task, step.before, step.replicas),
        patch=step.patch,
    )


def step_message(task: str, before: int, replicas: int) -> str:
    """Return the message of a step: a task had `before` replicas, and gets `replicas`."""
    after = count_of(replicas, "replica")
    return f"its idlePolicy scales task {task} down from {before} to {after}"
