"""`spec.progressPolicy` and `spec.idlePolicy`: how a job without progress, or with learners that
wait or idle GPUs, is handled.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from di_api.spec.bounds import MAX_TASKS
from di_api.spec.declared import Declared
from di_api.spec.kinds import Labels, OneOf, Whole


class ProgressAction(StrEnum):
    """Action for a job that hangs, besides the condition and the Warning event."""

    NOTIFY = "Notify"
    RESTART_TASK = "RestartTask"
    RESTART_JOB = "RestartJob"
    FAIL_JOB = "FailJob"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPolicy:
    """The time after which a job counts as hung, by the steps that it reports, and what follows."""

    timeout_seconds: Annotated[
        int,
        Declared(
            kind=Whole(1),
            about="Seconds within which the reported step has to grow while the job is Running.",
            more="[Details](lifecycle.md#progress).",
            may_change=True,
        ),
    ]
    first_timeout_seconds: Annotated[
        int | None,
        Declared(
            kind=Whole(1),
            about="The same limit before the first step, and in a phase that the program reports "
            "(evaluation, saving). At least `timeoutSeconds`.",
            may_change=True,
            absent="`timeoutSeconds`",
        ),
    ] = None
    action: Annotated[
        ProgressAction,
        Declared(
            kind=OneOf(ProgressAction),
            about="Action for a job that hangs, besides the condition `Hung` and a Warning event. "
            "A "
            "restart counts in `restarts`; with none left the job is Failed.",
            may_change=True,
        ),
    ] = ProgressAction.NOTIFY
    tasks: Annotated[
        tuple[str, ...],
        Declared(
            kind=Labels("task", MAX_TASKS),
            about="Names of the tasks that `RestartTask` restarts.",
            may_change=True,
            absent="the learners; all tasks of a job without one",
        ),
    ] = ()


class IdleAction(StrEnum):
    """Action for an idle job, besides the condition and the Warning event."""

    NOTIFY = "Notify"
    SUSPEND = "Suspend"
    SCALE_DOWN = "ScaleDown"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePolicy:
    """The share of waiting, or of idle GPUs, from which a job counts as idle, and what follows."""

    waiting_share: Annotated[
        int | None,
        Declared(
            kind=Whole(1, 100),
            about="Share of the time, in percent, that the learners wait for samples by the job's "
            "own reports (`learnerWaitFrac`): with this share or more the job counts as idle.",
            more="[Details](lifecycle.md#idle-jobs).",
            may_change=True,
        ),
    ] = None
    gpu_idle_share: Annotated[
        int | None,
        Declared(
            kind=Whole(1, 100),
            about="Share of the time, in percent, that the GPUs of the pod that reports are idle "
            "(`gpuIdleFrac`): with this share or more the job counts as idle. One of both shares "
            "is required; with both, each of them is enough.",
            more="[Details](lifecycle.md#idle-gpus).",
            may_change=True,
        ),
    ] = None
    seconds: Annotated[
        int,
        Declared(
            kind=Whole(60),
            about="Seconds for which every report has to have such a share.",
            may_change=True,
        ),
    ] = 600
    action: Annotated[
        IdleAction,
        Declared(
            kind=OneOf(IdleAction),
            about="Action for an idle job, besides the condition `Idle` and a Warning event. "
            "`Suspend` sets `suspend`; `di resume` resumes the job. `ScaleDown` removes one "
            "replica of a learner task, down to its `minReplicas`.",
            more="[Details](lifecycle.md#fewer-learners).",
            may_change=True,
        ),
    ] = IdleAction.NOTIFY
