"""Rules about the tasks that a success policy names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import FieldError, mapping
from di_api.spec.task import CompletionAction
from di_api.validation.tasks import Tasks, task_names, wrong_names

_PATH = "spec.successPolicy.tasks"
_GOING_ON: Final = tuple(
    action.value for action in CompletionAction if action is not CompletionAction.COMPLETE_JOB
)


def wrong_success_policy(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield errors for unknown and repeated names, for a policy without names, and for tasks that
    are not over when they have succeeded.
    """
    policy = mapping(spec.get("successPolicy"))
    if policy.get("tasks") == []:
        yield FieldError(_PATH, [], "must name a task")
    if tasks:
        yield from wrong_names(_PATH, policy.get("tasks"), task_names(tasks), but=_going_on(tasks))


def _going_on(tasks: Tasks) -> dict[str, str]:
    """Return by name why the success of a task cannot be that of its job."""
    return {
        name: f"the onCompletion of this task is {action}"
        for _, task in tasks
        if isinstance(name := task.get("name"), str)
        and (action := task.get("onCompletion")) in _GOING_ON
    }
