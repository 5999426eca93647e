"""The numbers of a job that its metrics show, read at each change of the job.

The label of a job is `dijob`, because Prometheus uses `job` for the scraped service.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from di_api.expected_completion import ExpectedCompletion
from di_api.field_error import items, mapping
from di_api.phase import Phase
from di_api.spec.bounds import MAX_TASKS
from di_api.status.shards import FIELD, MAX_SETS
from di_api.timestamps import parse_time

Object = Mapping[str, Any]
Layout: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""For each series its family, and the values of the labels besides those of the job."""

LONGEST_NAME: Final = 63
"""Maximum length of a task's name, as admission checks it; a status with a longer one was
edited.
"""


class Family(NamedTuple):
    """A metric of single jobs; `labels` are those besides the job's own."""

    text: str
    labels: tuple[str, ...] = ()
    is_counter: bool = False


PODS: Final = "di_job_pods"
READY: Final = "di_job_ready_pods"
PROGRESS: Final = "di_job_progress_ratio"
SHARDS: Final = "di_job_shards"
HUNG: Final = "di_job_hung"
COMPLETION: Final = "di_job_expected_completion_timestamp_seconds"
START: Final = "di_job_expected_start_timestamp_seconds"
WAIT: Final = "di_job_queue_wait_seconds"
GOODPUT: Final = "di_job_goodput_samples_per_second"
_REPORTED: Final = {
    "learnerWaitFrac": "di_job_learner_waiting_ratio",
    "envStepsPerSec": "di_job_env_steps_per_second",
    "trainStepsPerSec": "di_job_train_steps_per_second",
    "queueDepth": "di_job_queue_depth",
    "policyLag": "di_job_policy_lag",
    "staleFrac": "di_job_stale_ratio",
}
_COUNTED: Final = {"restarts": "di_job_restarts", "reschedules": "di_job_reschedules"}
_EXPECTED: Final = {"expectedCompletion": COMPLETION, "expectedStart": START}
FAMILIES: Final[Mapping[str, Family]] = {
    PODS: Family("Pods that a task is to have, by their phase.", ("task", "phase")),
    READY: Family("Pods that are ready."),
    PROGRESS: Family("Share of the steps that are done."),
    SHARDS: Family(
        "Data shards of a data set in all epochs: total, and those that are done.",
        ("dataset", "state"),
    ),
    WAIT: Family("How long a Pending job has been waiting."),
    HUNG: Family("1 for a job whose reported step does not grow."),
    COMPLETION: Family(
        "When the job will be complete; in four of five cases between earliest and latest.",
        ("bound",),
    ),
    START: Family(
        "When a job that waits for nodes will have them, as the allocator expects it.",
        ("bound",),
    ),
    GOODPUT: Family(
        "Useful samples a second on the nodes that the job has, by its measured curve."
    ),
    "di_job_learner_waiting_ratio": Family("Time that the learner waits for samples."),
    "di_job_env_steps_per_second": Family("Steps of environments, as reported."),
    "di_job_train_steps_per_second": Family("Training steps, as reported."),
    "di_job_queue_depth": Family("Batches that wait for the learner."),
    "di_job_policy_lag": Family("Policy versions that the learner's samples are behind."),
    "di_job_stale_ratio": Family("Samples that are thrown away because they are too old."),
    "di_job_restarts": Family("Restarts of the job, by its status.", is_counter=True),
    "di_job_reschedules": Family("Reschedules of the job, by its status.", is_counter=True),
}
_POD_PHASES: Final = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
_ENDED: Final = tuple(phase.value for phase in Phase if phase.is_finished)
_LARGEST: Final = 1.7e308


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNumbers:
    """The values of the metrics of a job that has not ended.

    Attributes:
        is_hung: its reported step does not grow.
        is_failing: it has been restarted, or is about to be.
        since: when a waiting job began to wait; None: it does not wait.
        layout: the series.
        values: their values, in that order.
    """

    namespace: str
    name: str
    uid: str
    is_hung: bool
    is_failing: bool
    since: datetime | None
    layout: Layout
    values: array[float]

    @property
    def series(self) -> int:
        """Return the maximum number of its series; whether goodput and wait exist is known at the
        scrape.
        """
        return len(self.layout) + 2


def read_numbers(job: Object) -> JobNumbers | None:
    """Read a job of any shape; None if it has ended."""
    status, metadata = mapping(job.get("status")), job["metadata"]
    phase = status.get("phase")
    if phase in _ENDED:
        return None
    read = ((family, labels, _number(value)) for family, labels, value in _read(status))
    found = [(family, labels, number) for family, labels, number in read if number is not None]
    layout = tuple((family, labels) for family, labels, _ in found)
    hung = next((number for family, _, number in found if family == HUNG), 0.0)
    restarts = next((number for family, _, number in found if family == "di_job_restarts"), 0.0)
    return JobNumbers(
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
        is_hung=hung > 0,
        is_failing=restarts > 0 or phase == Phase.RESTARTING.value,
        since=_since(metadata, status) if phase in (None, Phase.PENDING.value) else None,
        layout=_shared(layout),
        values=array("d", (number for _, _, number in found)),
    )


@lru_cache(maxsize=4096)
def _shared(layout: Layout) -> Layout:
    """Return one shared object for all jobs with the same tasks and reports: it takes most of the
    memory.
    """
    return layout


def _read(status: Object) -> Iterator[tuple[str, tuple[str, ...], object]]:
    for task, counts in islice(mapping(status.get("taskStatus")).items(), MAX_TASKS):
        for phase, number in mapping(counts).items():
            if phase in _POD_PHASES and len(task) <= LONGEST_NAME:
                yield PODS, (task, phase), number
    yield READY, (), status.get("readyReplicas")
    for field, family in _COUNTED.items():
        yield family, (), status.get(field)
    reported = mapping(status.get("profilings"))
    for field, family in _REPORTED.items():
        yield family, (), reported.get(field)
    progress = mapping(status.get("progress"))
    step, total = _number(progress.get("step")), _number(progress.get("totalSteps"))
    if step is not None and total is not None and total > 0:
        yield PROGRESS, (), min(1.0, max(0.0, step / total))
    for name, raw in islice(mapping(status.get(FIELD)).items(), MAX_SETS):
        counts = mapping(raw)
        for field in ("total", "done") if len(name) <= LONGEST_NAME else ():
            yield SHARDS, (name, field), counts.get(field)
    hung = _condition(status, "Hung")
    if hung is not None:
        yield HUNG, (), float(hung.get("status") == "True")
    for field, family in _EXPECTED.items():
        told = ExpectedCompletion.read(status.get(field))
        for bound in ("earliest", "expected", "latest") if told is not None else ():
            yield family, (bound,), getattr(told, bound).timestamp()


def _number(value: object) -> float | None:
    # A value that was written by hand may not be a number of pods.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST <= value <= _LARGEST else None


def _since(metadata: Object, status: Object) -> datetime | None:
    """Return since when a job waits: since it was preempted or suspended, or created."""
    pending = _condition(status, Phase.PENDING.value)
    found = (
        metadata.get("creationTimestamp") if pending is None else pending.get("lastTransitionTime")
    )
    return parse_time(found)


def _condition(status: Object, kind: str) -> Object | None:
    found = map(mapping, items(status.get("conditions")))
    return next((each for each in found if each.get("type") == kind), None)
