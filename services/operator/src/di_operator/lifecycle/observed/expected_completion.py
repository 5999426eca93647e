"""The expected completion of a running job, from its steps, their rate and its assignment.

The rate is measured from the first report after all replicas last started running: a restart, a
move or another number of replicas starts a new measurement. The error of such a forecast was
measured on recorded workloads (`python -m tools.benchmarks.allocator.predicted_end`). It depends
on the share of completed steps and on whether the allocator may resize the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from di_api.expected_completion import ExpectedCompletion
from di_api.timestamps import format_time
from di_operator.lifecycle.observed.reported import Reported, read_number
from di_operator.lifecycle.vocabulary.timestamps import parse_time

WRITE_PERIOD: Final = 60.0
"""Minimum number of seconds between two status writes that only change the forecast."""
WORTH_TELLING: Final = 0.1
"""Share of the remaining time by which a forecast has to change before it is written."""
SILENCE: Final = 600.0
"""Seconds without a report after which there is no forecast; at least as long as was left."""
FAREWELL: Final = 5.0
"""Seconds that `latest` adds after the last step: for a checkpoint and the end of the pods."""
LONGEST: Final = 10 * 365 * 86400.0
"""Maximum forecast in seconds; a longer one is not reported."""
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Factors for the remaining time by the measured rate: in four of five jobs the actual time is
    between the `earliest` and the `latest` one.
    """

    done: float
    """The share of steps that are done, 0 to 1; the factors between two shares are interpolated."""
    earliest: float
    expected: float
    latest: float


RESIZED: Final[Sequence[Spread]] = (
    Spread(done=0.025, earliest=0.16, expected=0.28, latest=0.64),
    Spread(done=0.075, earliest=0.34, expected=0.56, latest=1.12),
    Spread(done=0.15, earliest=0.47, expected=0.65, latest=1.14),
    Spread(done=0.3, earliest=0.37, expected=0.74, latest=1.05),
    Spread(done=0.5, earliest=0.58, expected=0.84, latest=1.01),
    Spread(done=0.7, earliest=0.74, expected=0.88, latest=1.0),
    Spread(done=0.85, earliest=0.78, expected=0.96, latest=1.01),
    Spread(done=0.95, earliest=0.8, expected=0.99, latest=1.01),
)
"""For jobs that the allocator may resize: most get more replicas over time."""
STEADY: Final[Sequence[Spread]] = (
    Spread(done=0.025, earliest=0.32, expected=1.0, latest=1.02),
    Spread(done=0.075, earliest=0.55, expected=1.0, latest=1.02),
    Spread(done=0.15, earliest=0.71, expected=1.0, latest=1.02),
    Spread(done=0.3, earliest=0.82, expected=1.0, latest=1.02),
    Spread(done=0.5, earliest=0.89, expected=1.0, latest=1.03),
    Spread(done=0.7, earliest=0.92, expected=1.0, latest=1.02),
    Spread(done=0.85, earliest=0.93, expected=1.0, latest=1.03),
    Spread(done=0.95, earliest=0.93, expected=1.0, latest=1.04),
)
"""For all other jobs. Steps get faster more often than slower, but the median of a job with a
constant rate is its rate.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The report from which a rate is measured: `status.pace`."""

    since: datetime
    step: float

    @classmethod
    def read(cls, raw: object) -> Mark | None:
        """Read a value of any shape."""
        fields = raw if isinstance(raw, Mapping) else {}
        since, step = parse_time(fields.get("since")), read_number(fields.get("step"))
        return None if since is None or step is None else cls(since=since, step=step)

    def dump(self) -> dict[str, Any]:
        """Return the value of the field."""
        return {"since": format_time(self.since), "step": _plain(self.step)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The facts about a job whose replicas are all running."""

    reported: Reported
    since: datetime
    """Time since which all of its replicas have been running."""
    mark: Mark | None
    """The mark of the previous reconcile."""
    before: ExpectedCompletion | None = None
    """The previous forecast, used until a rate has been measured."""
    attained: float = 0.0
    """Replica-seconds assigned to the job up to the last report; 0 without the allocator."""
    replicas: int = 0
    """Number of replicas in its present assignment."""
    resized: bool = False
    """Whether the allocator may resize the job."""
    deadline: datetime | None = None
    """Time at which the job is ended even if it is not complete."""
    hangs: bool = False
    """Whether its steps are known to have stopped growing."""


def mark_of(run: Run) -> Mark | None:
    """Return the report from which the rate is measured. None without a report since all replicas
    have been running, or if the reports lack the total number of steps.
    """
    mark, step, at = run.mark, run.reported.step, run.reported.reported_at
    if run.reported.total is None:
        return None
    if mark is not None and mark.since >= run.since and (step is None or step >= mark.step):
        return mark
    return None if step is None or at is None or at < run.since else Mark(since=at, step=step)


def left_by_pace(run: Run) -> float | None:
    """Return the seconds from the last report to the last step at the measured rate; None without
    a rate.
    """
    step, total, at = run.reported.step, run.reported.total, run.reported.reported_at
    if step is None or total is None or at is None or not 0 < step < total:
        return None
    per_step = _seconds_per_step(run, step, at)
    return None if per_step is None else per_step * (total - step)


def expect(run: Run, now: datetime) -> ExpectedCompletion | None:
    """Return the expected completion of the job; None if there is no forecast."""
    step, total, at = run.reported.step, run.reported.total, run.reported.reported_at
    if step is None or total is None or at is None or not 0 < step < total:
        return None
    if run.hangs or run.reported.phase:
        return None
    left = left_by_pace(run)
    if left is None:
        # A restart takes time and steps: a forecast whose time has come does not hold any more.
        return run.before if run.before is not None and run.before.expected > now else None
    if left > LONGEST or (now - at).total_seconds() > max(SILENCE, left):
        return None
    spread = spread_at(RESIZED if run.resized else STEADY, step / total)
    earliest, expected, latest = (
        min(at + timedelta(seconds=seconds), run.deadline or _NEVER)
        for seconds in (
            left * spread.earliest,
            left * spread.expected,
            left * spread.latest + FAREWELL,
        )
    )
    if latest <= now:
        return None
    return ExpectedCompletion(earliest=earliest, expected=expected, latest=latest)


def has_moved(found: ExpectedCompletion, before: ExpectedCompletion | None, now: datetime) -> bool:
    """Return whether the forecast differs enough from the previous one to be written."""
    if before is None:
        return True
    left = (found.latest - now).total_seconds()
    moved = ((found.expected, before.expected), (found.latest, before.latest))
    furthest = max(abs((mine - known).total_seconds()) for mine, known in moved)
    return furthest > max(1.0, WORTH_TELLING * left)


def spread_at(spreads: Sequence[Spread], done: float) -> Spread:
    """Return the spread of jobs that have done that share of their steps."""
    if done <= spreads[0].done:
        return spreads[0]
    for lower, upper in pairwise(spreads):
        if done <= upper.done:
            weight = (done - lower.done) / (upper.done - lower.done)
            return Spread(
                done=done,
                earliest=_mix(lower.earliest, upper.earliest, weight),
                expected=_mix(lower.expected, upper.expected, weight),
                latest=_mix(lower.latest, upper.latest, weight),
            )
    return spreads[-1]


def _seconds_per_step(run: Run, step: float, at: datetime) -> float | None:
    mark = mark_of(run)
    if mark is not None and step > mark.step and at > mark.since:
        return (at - mark.since).total_seconds() / (step - mark.step)
    if run.attained > 0 and run.replicas > 0:
        # Assumes that the rate grows with the number of replicas, which has just changed.
        return run.attained / step / run.replicas
    return None


def _mix(lower: float, upper: float, weight: float) -> float:
    return lower + (upper - lower) * weight


def _plain(step: float) -> float | int:
    return int(step) if step.is_integer() and abs(step) < 2**53 else step
