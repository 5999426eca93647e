"""The families of the metrics of single jobs, from the numbers that are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from di_operator.metrics.jobs.choice import SERIES_OF_A_JOB, choose
from di_operator.metrics.jobs.numbers import (
    FAMILIES,
    GOODPUT,
    WAIT,
    JobNumbers,
    read_numbers,
)

_JOB: Final = ("namespace", "dijob")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What jobs' metrics depend on beside the jobs.

    Attributes:
        leads: whether this replica is the leader; another one shows nothing, or all would count
            twice.
        now: the API server's time.
        most: how many jobs of three tasks are shown; of larger ones fewer.
        goodput: what the allocator takes a job's goodput for, by its key and UID; None: it does
            not know. Called beside the event loop.
    """

    leads: Callable[[], bool]
    now: Callable[[], datetime]
    most: int
    goodput: Callable[[str, str], float | None] = lambda _key, _uid: None


class JobMetrics:
    """Keeps the numbers of all jobs that have not ended."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._jobs: dict[tuple[str, str], JobNumbers] = {}

    def follow(self, kind: str, job: Mapping[str, Any]) -> None:
        """Take in a change of a job, as the cache reports it."""
        metadata = job["metadata"]
        key = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        numbers = None
        if self._source.most and kind != "DELETED":
            numbers = read_numbers(job)
        if numbers is None:
            self._jobs.pop(key, None)
        else:
            self._jobs[key] = numbers

    def begin(self) -> Callable[[], list[Metric]]:
        """Take the numbers of this moment; what is returned makes families of them, in any
        thread."""
        source = self._source
        jobs = list(self._jobs.values()) if source.leads() else []
        now = source.now()
        return lambda: _families(jobs, now, source)


def _families(jobs: Sequence[JobNumbers], now: datetime, source: Source) -> list[Metric]:
    families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {
        name: (CounterMetricFamily if family.is_counter else GaugeMetricFamily)(
            name, family.text, labels=(*_JOB, *family.labels)
        )
        for name, family in FAMILIES.items()
    }
    chosen = choose(jobs, most_series=source.most * SERIES_OF_A_JOB)
    for job in chosen.shown:
        own = (job.namespace, job.name)
        for (name, labels), value in zip(job.layout, job.values, strict=True):
            families[name].add_metric((*own, *labels), value)
        if job.since is not None:
            waited = max(0.0, (now - job.since).total_seconds())
            families[WAIT].add_metric(own, waited)
        goodput = source.goodput(f"{job.namespace}/{job.name}", job.uid)
        if goodput is not None:
            families[GOODPUT].add_metric(own, goodput)
    return [*families.values(), _left_out(chosen.left_out)]


def _left_out(numbers: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(
        "di_job_metrics_left_out",
        "Jobs that have not ended and have no metrics of their own, by namespace.",
        labels=("namespace",),
    )
    for namespace, number in sorted(numbers.items()):
        family.add_metric((namespace,), number)
    return family
