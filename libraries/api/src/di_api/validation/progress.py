"""Rules about progressPolicy and idlePolicy that concern several fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.coordinated import is_coordinated
from di_api.field_error import FieldError, mapping
from di_api.spec import IdleAction, ProgressAction, TaskType
from di_api.validation.task.process_group import scaling_warning
from di_api.validation.tasks import Tasks, task_names, wrong_names

_PATH = "spec.progressPolicy"
_SHARES = ("waitingShare", "gpuIdleShare")


def wrong_time_outs(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a first timeout that is shorter than the later one."""
    policy = mapping(spec.get("progressPolicy"))
    first, usual = policy.get("firstTimeoutSeconds"), policy.get("timeoutSeconds")
    if isinstance(first, int) and isinstance(usual, int) and 0 < first < usual:
        yield FieldError(
            f"{_PATH}.firstTimeoutSeconds", first, f"must be at least timeoutSeconds, {usual}"
        )


def wrong_restarts(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for tasks to restart that do not exist, or that no action restarts."""
    policy = mapping(spec.get("progressPolicy"))
    action, names = policy.get("action"), policy.get("tasks")
    restarts_task = action == ProgressAction.RESTART_TASK
    if restarts_task and is_coordinated({"spec": spec}):
        yield FieldError(
            f"{_PATH}.action",
            action,
            "a job with a coordinator has no tasks; RestartJob restarts all its pods",
        )
    if names is None:
        return
    if not restarts_task:
        yield FieldError(f"{_PATH}.tasks", names, "goes with action RestartTask")
    elif names == []:
        yield FieldError(f"{_PATH}.tasks", names, "must name a task, or be left out")
    elif tasks:
        yield from wrong_names(f"{_PATH}.tasks", names, task_names(tasks))


def missing_share(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for an idlePolicy without a share."""
    policy = spec.get("idlePolicy")
    if isinstance(policy, Mapping) and not any(policy.get(each) is not None for each in _SHARES):
        yield FieldError("spec.idlePolicy", dict(policy), f"needs {' or '.join(_SHARES)}")


def wrong_scaling(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield the error for an idlePolicy that scales down a job without a learner task that it can
    scale.
    """
    action = mapping(spec.get("idlePolicy")).get("action")
    if action != IdleAction.SCALE_DOWN:
        return
    if is_coordinated({"spec": spec}):
        message = "a job with a coordinator has no tasks; Notify and Suspend are possible"
    elif spec.get("preemptible") is True:
        message = (
            "the allocator chooses how many learners there are; Notify and Suspend are possible"
        )
    elif not any(_may_shrink(spec, task) for _, task in tasks):
        message = (
            "needs a task of type learner with minReplicas that is not scalable and has no process "
            "group of fixed size"
        )
    else:
        return
    yield FieldError("spec.idlePolicy.action", action, message)


def _may_shrink(spec: Mapping[str, Any], task: Mapping[str, Any]) -> bool:
    is_chosen = task.get("type") == TaskType.LEARNER and task.get("minReplicas") is not None
    return is_chosen and task.get("scalable") is not True and scaling_warning(spec, task) is None
