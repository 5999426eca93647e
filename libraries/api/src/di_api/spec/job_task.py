"""Spec of a DIJobTask, the object by which one task of a job is scaled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from di_api.spec.declared import Declared
from di_api.spec.kinds import Label, Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTaskSpec:
    """The wanted replicas of a task, with the job's bounds."""

    job: Annotated[str, Declared(kind=Label("job"), about="Name of the job.")]
    task: Annotated[str, Declared(kind=Label("task"), about="Name of the task.")]
    replicas: Annotated[
        int,
        Declared(
            kind=Whole(0),
            about="Number of replicas of the task. The operator copies a new value into the job, "
            "and shows changes of the job here.",
            may_change=True,
        ),
    ]
    min_replicas: Annotated[
        int,
        Declared(
            kind=Whole(1),
            about="Lower bound of the task, 1 if it has none. Read-only.",
            may_change=True,
        ),
    ]
    max_replicas: Annotated[
        int,
        Declared(
            kind=Whole(1),
            about="Upper bound of the task. Read-only.",
            may_change=True,
        ),
    ]
