"""Which kind a job is of; nothing else asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.coordinated import is_coordinated
from di_api.spec import JobSpec
from di_operator.lifecycle.job_types.coordinator.kind import WithCoordinator
from di_operator.lifecycle.job_types.job_type import Kind
from di_operator.lifecycle.job_types.tasks.kind import WithTasks

TASKS: Final[Kind] = WithTasks()
COORDINATOR: Final[Kind] = WithCoordinator()


def kind_of(job: Mapping[str, Any], spec: JobSpec | None) -> Kind:
    """Return the kind of a job, by its raw spec where that could not be read."""
    has_coordinator = is_coordinated(job) if spec is None else spec.coordinated is not None
    return COORDINATOR if has_coordinator else TASKS
