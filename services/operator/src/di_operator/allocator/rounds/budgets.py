"""Rate limit of reconsidering all jobs, and budgets of changes by namespace. Pure.

A reconsideration of all jobs takes a policy's whole time, and can move any user's jobs. So there
is a minimum interval between two, and edits of jobs count against a budget of their namespace. A
namespace beyond its budget waits for the period, and its jobs do not grow at the expense of
others.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Final

from di_operator.allocator.model.job import JobInfo, NodeList, TaskInfo

SHORTEST_INTERVAL: Final = 5.0
"""Seconds between two reconsiderations of all jobs, unless the period is shorter."""
IDLE_SHARE: Final = 9.0
"""The next one is put off for at least so many times the duration of the last."""
CHANGES: Final = 30
"""Edits, suspensions, resumptions and deletions of a namespace's jobs that are counted at once."""
SECONDS_PER_CHANGE: Final = 2.0
"""Seconds until a namespace can make one more change."""


def interval(period: float, last: float) -> float:
    """Return the seconds from the start of a reconsideration to that of the next.

    Args:
        period: the interval when nothing changes.
        last: how long the last one took.
    """
    return min(period, max(SHORTEST_INTERVAL, (1 + IDLE_SHARE) * last))


class ChangeBudgets:
    """The recent changes of each namespace; times are monotonic seconds."""

    def __init__(self) -> None:
        # When the debt of a namespace for its changes will be paid; namespaces without changes are
        # absent.
        self._paid: dict[str, float] = {}

    def spend(self, namespace: str, now: float) -> bool:
        """Count one change; returns whether it is within the budget.

        Changes beyond it count too, up to twice the budget: a namespace that changes its jobs all
        the time is beyond it all the time.
        """
        most = now + 2 * CHANGES * SECONDS_PER_CHANGE
        paid = min(max(self._paid.get(namespace, now), now) + SECONDS_PER_CHANGE, most)
        self._paid[namespace] = paid
        return not self._is_over(paid, now)

    def over(self, now: float) -> frozenset[str]:
        """The namespaces that are beyond their budget."""
        for name in [name for name, paid in self._paid.items() if paid <= now]:
            del self._paid[name]
        return frozenset(name for name, paid in self._paid.items() if self._is_over(paid, now))

    def _is_over(self, paid: float, now: float) -> bool:
        return paid - now > CHANGES * SECONDS_PER_CHANGE


def held_back(
    jobs: Mapping[str, JobInfo], held: Mapping[str, NodeList], over: Container[str]
) -> dict[str, JobInfo]:
    """Return the jobs about which a policy is asked together.

    Jobs of namespaces that are `over` their budget are included only if they hold nodes, at their
    present size. Their other jobs can only have what is left.
    """
    return {
        key: job if job.namespace not in over else _not_larger(job, held[key])
        for key, job in jobs.items()
        if job.namespace not in over or held[key]
    }


def _not_larger(job: JobInfo, has: NodeList) -> JobInfo:
    if not job.preemptible:
        return job
    return replace(job, tasks=tuple(_cut(task, len(has.task(task.name))) for task in job.tasks))


def _cut(task: TaskInfo, count: int) -> TaskInfo:
    most = max(task.minimum, min(task.maximum, count))
    return replace(task, maximum=most, replicas=min(task.replicas, most))
