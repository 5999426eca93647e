"""Jobs that are not what a policy would like them to be.

On the recorded workloads every job reports its speed and may have any size. A condition makes some
of them different; which ones follows from their place in the workload, so nothing is random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from di_operator.allocator.goodput.model import UNEXPLORED
from di_operator.allocator.goodput.params import GoodputModel
from di_operator.allocator.model.job import JobInfo

# How many times less work a lying job says it has left.
_LIE: Final = 10.0
# What it claims to take for going on from a checkpoint, in seconds.
_CLAIM: Final = 3600.0


class Condition(StrEnum):
    """What some of the jobs are like."""

    IDEAL = "ideal"
    SILENT = "silent"
    """A third report nothing."""
    RIGID = "rigid"
    """A third run on the replicas their owners asked for or more, never on fewer."""
    OPEN_ENDED = "open-ended"
    """A third do not say how much work they have left."""
    MIXED = "mixed"
    """A third report nothing, a third are rigid, and a sixth do not say what is left."""
    LYING = "lying"
    """A third say that they have a tenth of the work left, and that replicas cost them nothing to
    synchronise."""
    CLINGING = "clinging"
    """A third say that they take an hour to go on from a checkpoint."""


def told(condition: Condition, number: int, job: JobInfo) -> JobInfo:
    """Return what the policy is told of the job with that number in its workload, from 0."""
    changes = _CHANGES[condition]
    return changes[number % len(changes)](job)


def _as_it_is(job: JobInfo) -> JobInfo:
    return job


def _silent(job: JobInfo) -> JobInfo:
    return replace(job, model=None, by_kind={}, explored=0, remaining=None)


def _rigid(job: JobInfo) -> JobInfo:
    (task,) = job.tasks
    return replace(job, tasks=(replace(task, minimum=task.replicas),))


def _open_ended(job: JobInfo) -> JobInfo:
    return replace(job, remaining=None)


def _lying(job: JobInfo) -> JobInfo:
    remaining = None if job.remaining is None else job.remaining / _LIE
    return replace(
        job,
        model=job.model and _without_links(job.model),
        by_kind={kind: _without_links(model) for kind, model in job.by_kind.items()},
        remaining=remaining,
    )


def _clinging(job: JobInfo) -> JobInfo:
    return replace(job, restoring=_CLAIM)


def _without_links(model: GoodputModel) -> GoodputModel:
    free = dict.fromkeys(("alpha_n", "beta_n", "alpha_r", "beta_r"), UNEXPLORED)
    return replace(model, perf=replace(model.perf, **free))


_CHANGES: Final[Mapping[Condition, tuple[Callable[[JobInfo], JobInfo], ...]]] = {
    Condition.IDEAL: (_as_it_is,),
    Condition.SILENT: (_silent, _as_it_is, _as_it_is),
    Condition.RIGID: (_rigid, _as_it_is, _as_it_is),
    Condition.OPEN_ENDED: (_open_ended, _as_it_is, _as_it_is),
    Condition.MIXED: (_silent, _rigid, _as_it_is, _silent, _rigid, _open_ended),
    Condition.LYING: (_lying, _as_it_is, _as_it_is),
    Condition.CLINGING: (_clinging, _as_it_is, _as_it_is),
}
"""By the number of the job, again and again from the front."""
