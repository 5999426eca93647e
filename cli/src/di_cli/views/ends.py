"""When jobs end, by what they report of their progress, or by their deadline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeGuard

from di_api.field_error import mapping
from di_api.timestamps import parse_time
from di_cli.views.times import span

Object = Mapping[str, Any]

_MOST: Final = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a job that runs.

    Attributes:
        uid: of the job.
        key: `<namespace>/<name>`.
        seconds: from now.
        by_deadline: it ends then at the latest, and does not say when by itself.
    """

    uid: str
    key: str
    seconds: float
    by_deadline: bool = False

    def when(self) -> str:
        """In words."""
        length = span(self.seconds)
        return f"in {length} at the latest" if self.by_deadline else f"in about {length}"


def ends_of(jobs: Iterable[Object], now: datetime) -> list[End]:
    """The ends that can be told, the next first."""
    found = (end_of(job, now) for job in jobs)
    return sorted((each for each in found if each), key=lambda end: (end.seconds, end.key))


def end_of(job: Object, now: datetime) -> End | None:
    """The end of a job that runs, at its pace since its start, restarts and waiting included; None
    if it cannot be told."""
    metadata, spec = mapping(job.get("metadata")), mapping(job.get("spec"))
    status = mapping(job.get("status"))
    began = parse_time(status.get("startTime"))
    if began is None or status.get("completionTimestamp") or spec.get("suspend"):
        return None
    deadline = spec.get("activeDeadlineSeconds")
    latest = (began - now).total_seconds() + deadline if is_number(deadline) else None
    left = _left(mapping(status.get("progress")), began, now)
    if latest is None and left is None:
        return None
    by_deadline = left is None or (latest is not None and latest < left)
    return End(
        uid=str(metadata.get("uid") or ""),
        key=f"{metadata.get('namespace')}/{metadata.get('name')}",
        seconds=max(0.0, (latest if by_deadline else left) or 0.0),
        by_deadline=by_deadline,
    )


def _left(progress: Object, began: datetime, now: datetime) -> float | None:
    step, total = progress.get("step"), progress.get("totalSteps")
    reported = parse_time(progress.get("reportedAt")) or now
    if not is_number(step) or not is_number(total) or not 0 < step <= total:
        return None
    spent = reported - began
    if spent <= timedelta(0):
        return None
    return spent.total_seconds() * (total - step) / step - (now - reported).total_seconds()


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number that one can reckon with: what nobody has time for is no length of
    time, and no number of steps."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
