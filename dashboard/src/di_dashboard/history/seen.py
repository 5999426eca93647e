"""Changes of jobs observed by this process, with the interface of longer histories."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from di_api.field_error import items, mapping
from di_api.timestamps import parse_time
from di_dashboard.history.series import Series, numbers_of

Object = Mapping[str, Any]

MOST_JOBS: Final = 4096
"""Maximum number of remembered jobs; those that changed last."""
MOST_CHANGES: Final = 256
"""Maximum number of changes of a job; the oldest are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change.

    Attributes:
        kind: "phase" or "replicas".
        text: the phase, or the change of a task: `collector 2 -> 4`.
    """

    at: datetime
    kind: str
    text: str


class History(Protocol):
    """A history of jobs by UID, so that a later job of the same name is separate."""

    def changes(self, job: Object) -> Sequence[Change]:
        """Return the changes of the job, the oldest first."""

    def series(self, job: Object) -> Series:
        """Return the job's reports."""


class Seen:
    """The changes since this process began. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, _Remembered] = OrderedDict()

    def changes(self, job: Object) -> Sequence[Change]:
        """Return the changes of the job, the oldest first."""
        with self._lock:
            found = self._jobs.get(uid_of(job))
            return list(found.changes) if found else []

    def series(self, job: Object) -> Series:
        """Return the job's reports, as a copy."""
        with self._lock:
            found = self._jobs.get(uid_of(job))
            if found is None:
                return Series()
            kept = found.series
            return Series(kept.times[:], {name: each[:] for name, each in kept.values.items()})

    def look(self, job: Object, now: datetime) -> None:
        """Record the present state of a job."""
        with self._lock:
            uid = uid_of(job)
            found = self._jobs.pop(uid, None) or _Remembered()
            self._jobs[uid] = found
            if len(self._jobs) > MOST_JOBS:
                self._jobs.popitem(last=False)
            found.look(job, now)

    def forget(self, job: Object) -> None:
        """Remove a deleted job."""
        with self._lock:
            self._jobs.pop(uid_of(job), None)


class _Remembered:
    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.series = Series()
        self._phase = ""
        self._counts: dict[str, int] = {}
        self._report: object = None

    def look(self, job: Object, now: datetime) -> None:
        status = mapping(job.get("status"))
        phase, counts = str(status.get("phase") or ""), counts_of(job)
        if phase and phase != self._phase:
            self._note(now, "phase", phase)
        for task, count in counts.items():
            before = self._counts.get(task)
            if before is not None and before != count:
                self._note(now, "replicas", f"{task} {before} -> {count}")
        self._phase, self._counts = phase or self._phase, counts
        self._take(status, now)

    def _take(self, status: Object, now: datetime) -> None:
        report, progress = mapping(status.get("profilings")), mapping(status.get("progress"))
        ready = ready_of(status)
        seen = (report, progress.get("step"), ready)
        if seen == self._report:
            return
        is_new_report = not isinstance(self._report, tuple) or self._report[0] != report
        self._report = seen
        at = (parse_time(report.get("reportedAt")) if is_new_report else None) or now
        # No time of an ended job is later than its end.
        at = min(at, parse_time(status.get("completionTimestamp")) or at)
        numbers = numbers_of(report) if report else {}
        step = numbers_of(progress).get("step")
        if step is not None:
            numbers.setdefault("step", step)
        counts = {f"ready {task}": float(count) for task, count in ready.items()}
        if numbers or counts:
            self.series.add(at.timestamp(), {**numbers, **counts})

    def _note(self, at: datetime, kind: str, text: str) -> None:
        self.changes.append(Change(at=at, kind=kind, text=text))
        del self.changes[:-MOST_CHANGES]


def counts_of(job: Object) -> dict[str, int]:
    """Return the wanted replicas of each task."""
    tasks = map(mapping, items(mapping(job.get("spec")).get("tasks")))
    return {
        str(each.get("name") or each.get("type")): count
        for each in tasks
        if isinstance(count := each.get("replicas", 1), int)
    }


def ready_of(status: Object) -> dict[str, int]:
    """Return the number of running pods of each task."""
    return pods_in(status, "Running")


def pods_in(status: Object, *phases: str) -> dict[str, int]:
    """Return the number of pods of each task that are in one of these phases."""
    return {
        str(task): sum(
            count for phase in phases if isinstance(count := mapping(found).get(phase), int)
        )
        for task, found in mapping(status.get("taskStatus")).items()
    }


def uid_of(job: Object) -> str:
    """Return the UID of a job, empty if it has none."""
    return str(mapping(job.get("metadata")).get("uid") or "")
