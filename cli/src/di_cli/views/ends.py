"""Expected starts and ends of jobs, by the operator's forecast or by their deadline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeGuard

from di_api.expected_completion import ExpectedCompletion
from di_api.field_error import mapping
from di_api.phase import Phase
from di_api.timestamps import parse_time
from di_api.wording import span

Object = Mapping[str, Any]

_MOST: Final = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a running job.

    Attributes:
        uid: of the job.
        key: `<namespace>/<name>`.
        seconds: from now.
        between: interval in seconds with 80 % probability; None: unknown.
        by_deadline: whether it is only the deadline, because there is no forecast.
    """

    uid: str
    key: str
    seconds: float
    between: tuple[float, float] | None = None
    by_deadline: bool = False

    def when(self) -> str:
        """Return the most likely time as text."""
        length = span(self.seconds)
        return f"in {length} at the latest" if self.by_deadline else f"in about {length}"

    def range(self) -> str:
        """Return the time as text, with the interval if there is one."""
        if self.between is None:
            return self.when()
        earliest, latest = self.between
        return f"{self.when()} ({span(earliest)}-{span(latest)})"


def ends_of(jobs: Iterable[Object], now: datetime) -> list[End]:
    """Return the known ends, the next first."""
    found = (end_of(job, now) for job in jobs)
    return sorted((each for each in found if each), key=lambda end: (end.seconds, end.key))


def end_of(job: Object, now: datetime) -> End | None:
    """Return the end of a running job, by the operator's forecast or its deadline; None if
    unknown.
    """
    metadata, spec = mapping(job.get("metadata")), mapping(job.get("spec"))
    status = mapping(job.get("status"))
    began = parse_time(status.get("startTime"))
    if began is None or status.get("completionTimestamp") or spec.get("suspend"):
        return None
    limit = spec.get("activeDeadlineSeconds")
    deadline = (began - now).total_seconds() + limit if is_number(limit) else None
    told = ExpectedCompletion.read(status.get("expectedCompletion"))
    left = told.left(now) if told is not None else None
    uid, key = str(metadata.get("uid") or ""), f"{metadata.get('namespace')}/{metadata.get('name')}"
    if left is not None and (deadline is None or left[1] <= deadline):
        earliest, expected, latest = left
        return End(uid=uid, key=key, seconds=expected, between=(earliest, latest))
    if deadline is None:
        return None
    return End(uid=uid, key=key, seconds=max(0.0, deadline), by_deadline=True)


def start_of(job: Object, now: datetime) -> str:
    """Return as text when the allocator expects a waiting job to get its nodes; empty if
    unknown.
    """
    status = mapping(job.get("status"))
    told = ExpectedCompletion.read(status.get("expectedStart"))
    left = told.left(now) if told is not None else None
    if status.get("phase") != Phase.PENDING or left is None:
        return ""
    earliest, expected, latest = map(span, left)
    return f"starts in about {expected} ({earliest}-{latest})"


def is_number(value: object) -> TypeGuard[float]:
    """Return whether it is a finite number within the usable range."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
