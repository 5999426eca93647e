"""Rules about the tasks that a success policy names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, mapping
from di_api.validation.tasks import Tasks, task_names, wrong_names

_PATH = "spec.successPolicy.tasks"


def wrong_success_policy(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield errors for unknown and repeated names, and for a policy without names."""
    policy = mapping(spec.get("successPolicy"))
    if policy.get("tasks") == []:
        yield FieldError(_PATH, [], "must name a task")
    if tasks:
        yield from wrong_names(_PATH, policy.get("tasks"), task_names(tasks))
