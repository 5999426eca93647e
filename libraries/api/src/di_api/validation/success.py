"""What a success policy names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, mapping
from di_api.validation.tasks import Tasks, task_names, wrong_names

_PATH = "spec.successPolicy.tasks"


def wrong_success_policy(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Names that no task has, or that are there twice; and a policy that names none."""
    policy = mapping(spec.get("successPolicy"))
    if policy.get("tasks") == []:
        yield FieldError(_PATH, [], "must name a task")
    if tasks:
        yield from wrong_names(_PATH, policy.get("tasks"), task_names(tasks))
