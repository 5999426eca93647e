"""Metrics of single jobs, for people who watch them with Prometheus; read when they are asked for.

The label of a job is `dijob`: `job` is what Prometheus calls the service that it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from di_api.expected_completion import ExpectedCompletion
from di_api.field_error import mapping
from di_api.phase import Phase
from di_api.timestamps import parse_time

Object = Mapping[str, Any]

LONGEST_NAME: Final = 63
"""Characters of a task's name, as admission has it; a status that says more was edited."""
_POD_PHASES: Final = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
_LARGEST: Final = 1.7e308
_JOB: Final = ("namespace", "dijob")
_REPORTED: Final = (
    ("learnerWaitFrac", "di_job_learner_waiting_ratio", "Time that the learner waits for samples."),
    ("envStepsPerSec", "di_job_env_steps_per_second", "Steps of environments, as reported."),
    ("trainStepsPerSec", "di_job_train_steps_per_second", "Training steps, as reported."),
    ("queueDepth", "di_job_queue_depth", "Batches that wait for the learner."),
    ("policyLag", "di_job_policy_lag", "Policy versions that the learner's samples are behind."),
    ("staleFrac", "di_job_stale_ratio", "Samples that are thrown away because they are too old."),
)
_COUNTED: Final = (
    ("restarts", "di_job_restarts", "Restarts of the job, by its status."),
    ("reschedules", "di_job_reschedules", "Reschedules of the job, by its status."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where jobs are read.

    Attributes:
        leads: whether this replica is the leader; another one says nothing, or all would count
            twice.
        unfinished: the jobs that have not ended, in any order.
        now: the API server's time.
        most: how many jobs are shown.
        goodput: what the allocator takes a job's goodput for; None: it does not know.
    """

    leads: Callable[[], bool]
    unfinished: Callable[[], Iterable[Object]]
    now: Callable[[], datetime]
    most: int
    goodput: Callable[[Object], float | None] = lambda _job: None


class JobMetrics(Collector):
    """The families; nothing is kept between two questions."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @override
    def collect(self) -> Iterable[Metric]:
        families = _Families()
        source = self._source
        left_out = 0
        if source.most and source.leads():
            jobs = sorted(source.unfinished(), key=_key)
            # The same ones each time: a job that comes and goes in them is of use to nobody.
            for job in islice(jobs, source.most):
                families.add(dict(job), source.now(), source.goodput(job))
            left_out = max(0, len(jobs) - source.most)
        return families.all(left_out)


class _Families:
    def __init__(self) -> None:
        self._pods = GaugeMetricFamily(
            "di_job_pods",
            "Pods that a task is to have, by their phase.",
            labels=(*_JOB, "task", "phase"),
        )
        self._ready = GaugeMetricFamily("di_job_ready_pods", "Pods that are ready.", labels=_JOB)
        self._reported = {
            key: GaugeMetricFamily(name, text, labels=_JOB) for key, name, text in _REPORTED
        }
        self._counted = {
            key: CounterMetricFamily(name, text, labels=_JOB) for key, name, text in _COUNTED
        }
        self._done = GaugeMetricFamily(
            "di_job_progress_ratio", "Share of the steps that are done.", labels=_JOB
        )
        self._waits = GaugeMetricFamily(
            "di_job_queue_wait_seconds", "How long a Pending job has been waiting.", labels=_JOB
        )
        self._hangs = GaugeMetricFamily(
            "di_job_hung", "1 for a job whose reported step does not grow.", labels=_JOB
        )
        self._ends = GaugeMetricFamily(
            "di_job_expected_completion_timestamp_seconds",
            "When the job will be complete; in four of five cases between earliest and latest.",
            labels=(*_JOB, "bound"),
        )
        self._starts = GaugeMetricFamily(
            "di_job_expected_start_timestamp_seconds",
            "When a job that waits for nodes will have them, as the allocator foretells it.",
            labels=(*_JOB, "bound"),
        )
        self._goodput = GaugeMetricFamily(
            "di_job_goodput_samples_per_second",
            "Useful samples a second on the nodes that the job has, by its measured curve.",
            labels=_JOB,
        )

    def add(self, job: Object, now: datetime, goodput: float | None) -> None:
        """Take in a job of any shape."""
        status = mapping(job.get("status"))
        labels = list(_key(job))
        for task, counts in mapping(status.get("taskStatus")).items():
            for phase, number in mapping(counts).items():
                if phase in _POD_PHASES and len(task) <= LONGEST_NAME:
                    _put(self._pods, [*labels, task, phase], number)
        _put(self._ready, labels, status.get("readyReplicas"))
        for key, family in self._counted.items():
            _put(family, labels, status.get(key))
        reported = mapping(status.get("profilings"))
        for key, gauge in self._reported.items():
            _put(gauge, labels, reported.get(key))
        progress = mapping(status.get("progress"))
        step, total = _number(progress.get("step")), _number(progress.get("totalSteps"))
        if step is not None and total is not None and total > 0:
            _put(self._done, labels, min(1.0, max(0.0, step / total)))
        if status.get("phase") in (None, Phase.PENDING.value):
            since = _since(job, status)
            if since is not None:
                _put(self._waits, labels, max(0.0, (now - since).total_seconds()))
        conditions = status.get("conditions")
        for each in conditions if isinstance(conditions, list) else ():
            if mapping(each).get("type") == "Hung":
                _put(self._hangs, labels, float(each.get("status") == "True"))
        _put(self._goodput, labels, goodput)
        for field, gauge in (("expectedCompletion", self._ends), ("expectedStart", self._starts)):
            told = ExpectedCompletion.read(status.get(field))
            for bound in ("earliest", "expected", "latest") if told is not None else ():
                _put(gauge, [*labels, bound], getattr(told, bound).timestamp())

    def all(self, left_out: int) -> list[Metric]:
        """The families, and how many jobs are not in them."""
        return [
            *(self._pods, self._ready, self._done, self._waits, self._hangs, self._ends),
            *(self._starts, self._goodput),
            *self._reported.values(),
            *self._counted.values(),
            GaugeMetricFamily(
                "di_job_metrics_left_out",
                "Jobs that have not ended and have no metrics of their own.",
                value=left_out,
            ),
        ]


def _put(family: GaugeMetricFamily | CounterMetricFamily, labels: list[str], value: object) -> None:
    number = _number(value)
    if number is not None:
        family.add_metric(labels, number)


def _number(value: object) -> float | None:
    # What somebody wrote by hand is no number of pods.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST <= value <= _LARGEST else None


def _key(job: Object) -> tuple[str, str]:
    metadata = job["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _since(job: Object, status: Object) -> datetime | None:
    """Since when it waits: since it was preempted or suspended, or made."""
    conditions = status.get("conditions")
    for each in conditions if isinstance(conditions, list) else ():
        if mapping(each).get("type") == Phase.PENDING.value:
            return parse_time(each.get("lastTransitionTime"))
    return parse_time(job["metadata"].get("creationTimestamp"))
