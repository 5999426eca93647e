"""Jobs as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from di_api.explain.messages import one_line
from di_api.field_error import items, mapping
from di_api.names import LABEL_OWNER
from di_api.phase import Phase
from di_api.profilings import tracking_url_of
from di_api.status.shards import read_shard_counts
from di_api.timestamps import parse_time
from di_api.wording import span
from di_cli.views.ends import end_of, is_number, start_of
from di_cli.views.queued import Place, in_queue, words_of
from di_cli.views.times import age, local

_WIDTH: Final = 8
_PROBLEMS: Final = {"MemberSilent": "silent", "Idle": "idle"}
"""Conditions that `di get` shows, with the first word of their lines."""
_FULL, _EMPTY = "▇", "▁"
GPU: Final = "nvidia.com/gpu"

HEADER: Final = (
    *("NAME", "PHASE", "PROGRESS", "READY", "WAITING", "RESTARTS", "GPUS", "AGE", "ENDS"),
)
OPTIONAL: Final = ("WAITING", "RESTARTS", "GPUS", "READY")
"""Columns that a narrow terminal leaves out, in this order."""
HEADER_WIDE: Final = (
    *HEADER[:-2],
    *("RESCHEDULES", "OWNER", "CREATED", "ENDED", "DURATION", "TRACKING", "REASON"),
)

Object = Mapping[str, Any]
Key = tuple[str, str]
"""Namespace and name of an object."""


_WITH_PODS: Final = frozenset(phase.value for phase in Phase if phase.is_placed)
"""Phases in which a job has all of its pods, or replaces some."""
_ENDED: Final = frozenset(phase.value for phase in Phase if phase.is_finished)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The fields of a job in a list.

    Attributes:
        progress: 0 to 1; None without a report.
        waiting: share of the learner's time that it waits for samples, 0 to 1; None without a
            report.
        ready: ready pods, of the total.
        gpus: held by its pods now.
        owner: its label `owner`; empty if it has none.
        tracking: the page of its run in an experiment tracker; empty without one.
        seconds: from its first pod to its end, or until now; None if it never started.
        missing: Kueue's message for a job that waits in a queue.
        hint: its place in a queue; for a job with problems a command that explains them; else its
            end.
    """

    namespace: str
    name: str
    phase: str
    progress: float | None
    ready: tuple[int, int]
    waiting: float | None
    restarts: int
    reschedules: int
    gpus: int
    owner: str
    tracking: str
    seconds: float | None
    age: str
    created: datetime | None
    ended: datetime | None
    reason: str
    missing: str
    hint: str


def key_of(obj: Object) -> Key:
    """Return namespace and name of an object of any shape."""
    metadata = mapping(obj.get("metadata"))
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def row(job: Object, now: datetime, places: Mapping[str, Place] = {}) -> Row:
    """Return the row of a job of any shape, with its place in a queue, if known."""
    metadata, status = mapping(job.get("metadata")), mapping(job.get("status"))
    name = str(metadata.get("name") or "")
    phase = str(status.get("phase") or "")
    reason = _reason(status, phase)
    return Row(
        namespace=str(metadata.get("namespace") or ""),
        name=name,
        phase=phase or "-",
        progress=progress_share(mapping(status.get("progress"))),
        ready=(_count(status.get("readyReplicas")), _wanted(job)),
        waiting=_waiting(job),
        restarts=restarts_of(job),
        reschedules=_count(status.get("reschedules")),
        gpus=gpus_held(job),
        owner=owner_of(job),
        tracking=tracking_url_of(job) or "",
        seconds=seconds_of(job, now),
        age=age(metadata.get("creationTimestamp"), now),
        created=parse_time(metadata.get("creationTimestamp")),
        ended=parse_time(status.get("completionTimestamp")),
        reason=reason,
        missing=words_of(job),
        hint=in_queue(job, places)
        or start_of(job, now)
        or _hint(name, phase, reason, status, now)
        or _ends(job, phase, now),
    )


def cells(
    found: Row, *, wide: bool = False, namespace: bool = False, short: bool = False
) -> tuple[str, ...]:
    """Return the texts of a row, in the order of the header; short ones have no bar, and of the
    end no interval.
    """
    ready, wanted = found.ready
    texts = (
        found.name,
        found.phase,
        percent(found.progress) if short else bar(found.progress),
        f"{ready}/{wanted}",
        percent(found.waiting),
        str(found.restarts),
        str(found.gpus),
    )
    last: tuple[str, ...] = (found.age, found.hint.partition(" (")[0] if short else found.hint)
    if wide:
        last = (
            str(found.reschedules),
            found.owner,
            local(found.created),
            local(found.ended),
            "" if found.seconds is None else span(found.seconds),
            found.tracking,
            ": ".join(text for text in (found.reason, found.missing) if text),
        )
    return (*((found.namespace,) if namespace else ()), *texts, *last)


def header(*, wide: bool = False, namespace: bool = False) -> tuple[str, ...]:
    """Return the names of the columns."""
    return (*(("NAMESPACE",) if namespace else ()), *(HEADER_WIDE if wide else HEADER))


def problem_lines(job: Object) -> list[str]:
    """Return a line about pods whose heartbeats have stopped, and one about learners that wait."""
    conditions = map(mapping, items(mapping(job.get("status")).get("conditions")))
    return [
        f"{_PROBLEMS[str(each.get('type'))]}: {one_line(str(each.get('message') or ''))}"
        for each in conditions
        if str(each.get("type")) in _PROBLEMS and each.get("status") == "True"
    ]


def shard_lines(job: Object, now: datetime) -> list[str]:
    """Return a line for each data set of which the job's workers take shards."""
    counts = read_shard_counts(mapping(job.get("status")), now)
    return [f"shards {each.name}: {each}" for each in counts]


def bar(share: float | None) -> str:
    """Return a bar and its percentage; empty without a share."""
    if share is None:
        return ""
    full = round(share * _WIDTH)
    return f"{_FULL * full}{_EMPTY * (_WIDTH - full)} {percent(share):>4}"


def percent(share: float | None) -> str:
    """Return a share in percent, rounded down so that 100 % is all; empty without one."""
    return "" if share is None else f"{int(share * 100)}%"


def gpus_of(pod_spec: Object) -> int:
    """Return the GPUs that a pod requests, without init containers and sidecars."""
    total = 0
    for container in items(pod_spec.get("containers")):
        resources = mapping(mapping(container).get("resources"))
        for key in ("limits", "requests"):
            if GPU in mapping(resources.get(key)):
                total += _count(_whole(mapping(resources.get(key))[GPU]))
                break
    return total


def sort_key(found: Row) -> tuple[str, str]:
    """Return a sort key by namespace and name."""
    return found.namespace, found.name


def gpus_asked(job: Object) -> int:
    """GPUs that all pods of a job ask for together."""
    tasks = map(mapping, items(mapping(job.get("spec")).get("tasks")))
    return sum(_pods(task) * _gpus_each(task) for task in tasks)


def gpus_held(job: Object) -> int:
    """Return the GPUs of the pods that have a node."""
    tasks = map(mapping, items(mapping(job.get("spec")).get("tasks")))
    return sum(_held(job, task) * _gpus_each(task) for task in tasks)


def _gpus_each(task: Object) -> int:
    return gpus_of(mapping(mapping(task.get("template")).get("spec")))


def _pods(task: Object) -> int:
    return _count(task.get("replicas", 1)) * (_count(task.get("podsPerReplica")) or 1)


def _held(job: Object, task: Object) -> int:
    """Return the number of a task's pods that have a node, by the status."""
    status, name = mapping(job.get("status")), str(task.get("name") or task.get("type") or "")
    if status.get("phase") in _ENDED:
        # The counts of tasks stay as they were at the end.
        return 0
    if placement := mapping(status.get("placement")):
        return len(items(placement.get(name)))
    if status.get("phase") in _WITH_PODS:
        return _pods(task)
    return _count(mapping(mapping(status.get("taskStatus")).get(name)).get("Running"))


def _wanted(job: Object) -> int:
    status = mapping(job.get("status"))
    if isinstance(status.get("replicas"), int):
        return _count(status["replicas"])
    tasks = map(mapping, items(mapping(job.get("spec")).get("tasks")))
    return sum(
        _count(task.get("replicas", 1)) * (_count(task.get("podsPerReplica")) or 1)
        for task in tasks
    )


def progress_share(progress: Object) -> float | None:
    """Return the reported share of the steps, 0 to 1; None if it is unknown."""
    step, total = progress.get("step"), progress.get("totalSteps")
    if not is_number(step) or not is_number(total) or total <= 0:
        return None
    return min(1.0, max(0.0, step / total))


def owner_of(job: Object) -> str:
    """Return the value of the label `owner`; empty without one."""
    labels = mapping(mapping(job.get("metadata")).get("labels"))
    return str(labels.get(LABEL_OWNER) or "")


def restarts_of(job: Object) -> int:
    """Return how many restarts were counted."""
    return _count(mapping(job.get("status")).get("restarts"))


def seconds_of(job: Object, now: datetime) -> float | None:
    """Return how long a job has run, its interruptions included; None if it never started."""
    status = mapping(job.get("status"))
    began = parse_time(status.get("startTime"))
    if began is None:
        return None
    ended = parse_time(status.get("completionTimestamp")) or now
    return max(0.0, (ended - began).total_seconds())


def has_samplers(job: Object) -> bool:
    """Return whether a learner of the job can wait for pods of another task."""
    spec = mapping(job.get("spec"))
    return bool(spec.get("coordinated")) or len(items(spec.get("tasks"))) != 1


def _waiting(job: Object) -> float | None:
    """Return the last reported share; None for a job without other pods to wait for."""
    if not has_samplers(job):
        return None
    waited = mapping(mapping(job.get("status")).get("profilings")).get("learnerWaitFrac")
    return waited if is_number(waited) and 0 <= waited <= 1 else None


def _reason(status: Object, phase: str) -> str:
    for each in map(mapping, items(status.get("conditions"))):
        if each.get("type") == phase:
            return str(each.get("reason") or "")
    return ""


def _hint(name: str, phase: str, reason: str, status: Object, now: datetime) -> str:
    if phase == Phase.SUCCEEDED:
        ended = age(status.get("completionTimestamp"), now)
        return f"{ended} ago" if ended else ""
    in_trouble = phase == Phase.FAILED or (bool(phase) and reason not in ("", f"Job{phase}"))
    return f"di why {name}" if in_trouble else ""


def _ends(job: Object, phase: str, now: datetime) -> str:
    end = end_of(job, now) if phase == Phase.RUNNING else None
    return end.range().removesuffix(" at the latest") if end else ""


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _whole(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def summary(rows: Sequence[Row]) -> str:
    """Return one line about many jobs."""
    phases: dict[str, int] = {}
    for each in rows:
        phases[each.phase] = phases.get(each.phase, 0) + 1
    parts = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
    return f"{len(rows)} jobs: {parts}"
