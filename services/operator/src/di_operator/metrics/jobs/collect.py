"""The metric families of single jobs, built from stored numbers."""

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
    """Inputs of jobs' metrics besides the jobs.

    Attributes:
        leads: whether this replica is the leader; other replicas show nothing, or all would count
            twice.
        now: the API server's time.
        most: number of jobs with three tasks that get metrics; fewer if jobs are larger.
        goodput: the allocator's goodput of a job, by its key and UID; None: unknown. Called outside
            the event loop's thread.
    """

    leads: Callable[[], bool]
    now: Callable[[], datetime]
    most: int
    goodput: Callable[[str, str], float | None] = lambda _key, _uid: None


class JobMetrics:
    """Stores the numbers of all jobs that have not ended."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._jobs: dict[tuple[str, str], JobNumbers] = {}

    def follow(self, kind: str, job: Mapping[str, Any]) -> None:
        """Record a change of a job, as the cache reports it."""
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
        """Take a snapshot of the numbers; return a function that builds the families in any
        thread.
        """
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
