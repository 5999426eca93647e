"""When jobs end, by what they report of their progress, or by their deadline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeGuard

from di_api.field_error import mapping
from di_api.timestamps import parse_time
from di_cli.views.times import span

Object = Mapping[str, Any]

_MOST: Final = 1e15
_FAR: Final = 4.0
"""Times: a pace that differs by more from that since the start is not compared with it."""
_AGREE: Final = 0.1
"""Of the time that is left: paces that differ by less are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a job that runs.

    Attributes:
        uid: of the job.
        key: `<namespace>/<name>`.
        seconds: from now.
        by_deadline: it ends then at the latest, and does not say when by itself.
        between: the soonest and the latest by all paces that are known of it, in seconds; None:
            there is one pace, or they agree.
    """

    uid: str
    key: str
    seconds: float
    by_deadline: bool = False
    between: tuple[float, float] | None = None

    def when(self) -> str:
        """In words."""
        length = span(self.seconds)
        return f"in {length} at the latest" if self.by_deadline else f"in about {length}"

    def when_between(self) -> str:
        """The same, with the soonest and the latest."""
        if self.between is None:
            return self.when()
        soonest, latest = map(span, self.between)
        return f"{self.when()} ({soonest} to {latest})"


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
    paces = _paces(status, began, now)
    left = paces[0] if paces else None
    if latest is None and left is None:
        return None
    by_deadline = left is None or (latest is not None and latest < left)
    most = latest if latest is not None else math.inf
    soonest, longest = (min(each(paces, default=0.0), most) for each in (min, max))
    apart = not by_deadline and longest - soonest > _AGREE * (left or 0.0)
    return End(
        uid=str(metadata.get("uid") or ""),
        key=f"{metadata.get('namespace')}/{metadata.get('name')}",
        seconds=max(0.0, (latest if by_deadline else left) or 0.0),
        by_deadline=by_deadline,
        between=(max(0.0, soonest), max(0.0, longest)) if apart else None,
    )


def _paces(status: Object, began: datetime, now: datetime) -> list[float]:
    """Seconds that are left by each pace that is known: that since the start first, then those that
    the job reports of now. One that is far from the first is of steps of another kind."""
    progress, profilings = mapping(status.get("progress")), mapping(status.get("profilings"))
    step, total = progress.get("step"), progress.get("totalSteps")
    reported = parse_time(progress.get("reportedAt")) or now
    if not is_number(step) or not is_number(total) or not 0 < step <= total:
        return []
    spent = reported - began
    if spent <= timedelta(0):
        return []
    mean = step / spent.total_seconds()
    if mean <= 0:
        # A step so small that it is none by the second.
        return []
    since = (now - reported).total_seconds()
    key = "trainStepsPerSec" if profilings.get("step") is not None else "envStepsPerSec"
    pace = profilings.get(key)
    known = is_number(pace) and mean / _FAR <= pace <= mean * _FAR
    return [(total - step) / each - since for each in (mean, *((pace,) if known else ()))]


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number that one can reckon with: what nobody has time for is no length of
    time, and no number of steps."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST
