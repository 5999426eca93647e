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
            about="How many replicas the task is to have. What is written here the operator "
            "writes into the job; what others write there it shows here.",
            may_change=True,
        ),
    ]
    min_replicas: Annotated[
        int,
        Declared(
            kind=Whole(1),
            about="The task's lower bound, 1 if it has none. Shown, not taken from here.",
            may_change=True,
        ),
    ]
    max_replicas: Annotated[
        int,
        Declared(
            kind=Whole(1),
            about="The task's upper bound. Shown, not taken from here.",
            may_change=True,
        ),
    ]
