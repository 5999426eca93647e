"""Selection of the jobs with metrics of their own, within a limit on the number of series. Pure
functions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from di_operator.metrics.jobs.numbers import JobNumbers

SERIES_OF_A_JOB: Final = 25
"""Series of a job with three tasks that reports; a job with more tasks has more."""
MOST_NAMESPACES: Final = 200
"""Maximum number of namespaces whose jobs without metrics are counted separately."""
OTHERS: Final = ""
"""Namespace value for the jobs of all further namespaces together."""


class Choice(NamedTuple):
    """The jobs with metrics, and the number of jobs without them by namespace."""

    shown: Sequence[JobNumbers]
    left_out: Mapping[str, int]


def choose(jobs: Iterable[JobNumbers], *, most_series: int) -> Choice:
    """Select the jobs with metrics; the result is the same for the same jobs.

    Up to half of the series go to jobs that hang, then to jobs that fail; the rest go to all
    others. In each group namespaces take turns, so that many jobs in one namespace displace no
    other namespace's.
    """
    groups = _Groups()
    for job in jobs:
        groups.put(job)
    chosen, left, later = list[JobNumbers](), most_series, list[JobNumbers]()
    for job in chain(_turns(groups.hung), _turns(groups.failing)):
        if left - job.series >= most_series // 2:
            chosen.append(job)
            left -= job.series
        else:
            later.append(job)
    left_out: Counter[str] = Counter()
    for job in _turns([*later, *groups.others]):
        if job.series <= left:
            chosen.append(job)
            left -= job.series
        else:
            left_out[job.namespace] += 1
    return Choice(chosen, _largest(left_out))


class _Groups:
    def __init__(self) -> None:
        self.hung: list[JobNumbers] = []
        self.failing: list[JobNumbers] = []
        self.others: list[JobNumbers] = []

    def put(self, job: JobNumbers) -> None:
        group = self.hung if job.is_hung else self.failing if job.is_failing else self.others
        group.append(job)


def _turns(jobs: Iterable[JobNumbers]) -> Iterator[JobNumbers]:
    """Return one job of each namespace, then a second one, and so on; urgent ones first, then by
    name.
    """
    queues: defaultdict[str, list[JobNumbers]] = defaultdict(list)
    for job in jobs:
        queues[job.namespace].append(job)
    for queue in queues.values():
        queue.sort(key=lambda job: (not job.is_hung, not job.is_failing, job.name), reverse=True)
    waiting = [queues[namespace] for namespace in sorted(queues)]
    while waiting:
        for queue in waiting:
            yield queue.pop()
        waiting = [queue for queue in waiting if queue]


def _largest(left_out: Counter[str]) -> Mapping[str, int]:
    named = dict(left_out.most_common(MOST_NAMESPACES))
    if rest := left_out.total() - sum(named.values()):
        named[OTHERS] = rest
    return named
