"""When jobs start and end, by what the operator expects, or by their deadline."""

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
    """The end of a job that runs.

    Attributes:
        uid: of the job.
        key: `<namespace>/<name>`.
        seconds: from now.
        between: so many seconds and so many, in four of five cases; None: nobody can say.
        by_deadline: it ends then at the latest, and does not say when by itself.
    """

    uid: str
    key: str
    seconds: float
    between: tuple[float, float] | None = None
    by_deadline: bool = False

    def when(self) -> str:
        """In words, the most likely moment alone."""
        length = span(self.seconds)
        return f"in {length} at the latest" if self.by_deadline else f"in about {length}"

    def range(self) -> str:
        """In words, with the interval where there is one."""
        if self.between is None:
            return self.when()
        earliest, latest = self.between
        return f"{self.when()} ({span(earliest)}-{span(latest)})"


def ends_of(jobs: Iterable[Object], now: datetime) -> list[End]:
    """The ends that can be told, the next first."""
    found = (end_of(job, now) for job in jobs)
    return sorted((each for each in found if each), key=lambda end: (end.seconds, end.key))


def end_of(job: Object, now: datetime) -> End | None:
    """The end of a job that runs, as the operator expects it, or at its deadline; None if it cannot
    be told."""
    metadata, spec = mapping(job.get("metadata")), mapping(job.get("spec"))
    status = mapping(job.get("status"))
    began = parse_time(status.get("startTime"))
    if began is None or status.get("completionTimestamp") or spec.get("suspend"):
        return None
    limit = spec.get("activeDeadlineSeconds")
    deadline = (began - now).total_seconds() + limit if is_number(limit) else None
    told = ExpectedCompletion.read(status.get("expectedCompletion"))
    if deadline is None and told is None:
        return None
    left = _seconds(told.expected, now) if told is not None else None
    by_deadline = left is None or (deadline is not None and deadline < left)
    between = None
    if told is not None and not by_deadline:
        between = (_seconds(told.earliest, now), _seconds(told.latest, now))
    return End(
        uid=str(metadata.get("uid") or ""),
        key=f"{metadata.get('namespace')}/{metadata.get('name')}",
        seconds=max(0.0, (deadline if by_deadline else left) or 0.0),
        between=between,
        by_deadline=by_deadline,
    )


def start_of(job: Object, now: datetime) -> str:
    """When the allocator expects a job that waits to have its nodes, in words; empty if it does not
    say."""
    status = mapping(job.get("status"))
    told = ExpectedCompletion.read(status.get("expectedStart"))
    if status.get("phase") != Phase.PENDING or told is None:
        return ""
    between = f"{span(_seconds(told.earliest, now))}-{span(_seconds(told.latest, now))}"
    return f"starts in about {span(_seconds(told.expected, now))} ({between})"


def _seconds(moment: datetime, now: datetime) -> float:
    return max(0.0, (moment - now).total_seconds())


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number that one can reckon with: what nobody has time for is no length of
    time, and no number of steps."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
