"""What a success policy names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, items, mapping
from di_api.validation.tasks import Tasks

_PATH = "spec.successPolicy.tasks"


def wrong_success_policy(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Names that no task has, or that are there twice; and a policy that names none."""
    policy = mapping(spec.get("successPolicy"))
    if policy.get("tasks") == []:
        yield FieldError(_PATH, [], "must name a task")
    known = {name for _, task in tasks if isinstance(name := task.get("name"), str)}
    seen: set[str] = set()
    for index, name in enumerate(items(policy.get("tasks")) if tasks else ()):
        if not isinstance(name, str):
            continue
        if name not in known:
            yield FieldError(f"{_PATH}[{index}]", name, "no task of this job has that name")
        elif name in seen:
            yield FieldError(f"{_PATH}[{index}]", name, "is listed already")
        seen.add(name)
