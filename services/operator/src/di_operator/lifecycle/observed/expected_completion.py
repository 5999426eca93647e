"""When a job that runs will be complete: from its steps, their pace and what the allocator grants.

The pace is measured since the first report after the job last came to run whole: a restart, a move
or another number of replicas begins a new measure. How far such a pace is from what then happens
was measured on recorded workloads (`python -m tools.benchmarks.allocator.predicted_end`), and
depends on how much is done and on whether the allocator may resize the job.
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
"""Seconds between two status writes that tell nothing but another expectation."""
WORTH_TELLING: Final = 0.1
"""Of the time that is left: what an expectation has to move by to be told."""
SILENCE: Final = 600.0
"""Seconds without a report after which nothing is foretold any more, or as long as was left."""
FAREWELL: Final = 5.0
"""Seconds after the last step that `latest` allows for: a checkpoint, and the ends of the pods."""
LONGEST: Final = 10 * 365 * 86400.0
"""Seconds; what would take longer is not foretold."""
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What is left by the pace, times these, is what is left: in four of five cases something
    between `earliest` and `latest`."""

    done: float
    """The share of the steps that are done, 0 to 1; between two the values are mixed."""
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
"""Of jobs that the allocator may give other numbers of replicas: most get more as they go on."""
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
"""Of all others. Steps that take ever less time are more frequent than the other way round, but a
job at an even pace is expected at its pace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A report that a pace is measured from: `status.pace`."""

    since: datetime
    step: float

    @classmethod
    def read(cls, raw: object) -> Mark | None:
        """Read a value of any shape."""
        fields = raw if isinstance(raw, Mapping) else {}
        since, step = parse_time(fields.get("since")), read_number(fields.get("step"))
        return None if since is None or step is None else cls(since=since, step=step)

    def dump(self) -> dict[str, Any]:
        """The value of the field."""
        return {"since": format_time(self.since), "step": _plain(self.step)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What is known of a job that runs whole."""

    reported: Reported
    since: datetime
    """Since when it has been running whole."""
    mark: Mark | None
    """As it was when the job was last looked at."""
    before: ExpectedCompletion | None = None
    """What was expected of it last, for as long as it has no pace of its own."""
    attained: float = 0.0
    """Replica-seconds in which it could work by the last report; 0: the allocator gave it none."""
    replicas: int = 0
    """That it has given it now."""
    resized: bool = False
    """Whether the allocator may give it another number."""
    deadline: datetime | None = None
    """When it is ended if it is not complete."""
    hangs: bool = False
    """Whether its steps are known not to grow."""


def mark_of(run: Run) -> Mark | None:
    """From where the pace is measured now; None: there has been no report since it runs whole, or
    none that says how many steps there are to be."""
    mark, step, at = run.mark, run.reported.step, run.reported.reported_at
    if run.reported.total is None:
        return None
    if mark is not None and mark.since >= run.since and (step is None or step >= mark.step):
        return mark
    return None if step is None or at is None or at < run.since else Mark(since=at, step=step)


def left_by_pace(run: Run) -> float | None:
    """Seconds from the last report to the last step at the present pace; None: it has none."""
    step, total, at = run.reported.step, run.reported.total, run.reported.reported_at
    if step is None or total is None or at is None or not 0 < step < total:
        return None
    per_step = _seconds_per_step(run, step, at)
    return None if per_step is None else per_step * (total - step)


def expect(run: Run, now: datetime) -> ExpectedCompletion | None:
    """When the job will be complete; None: nothing can be said."""
    step, total, at = run.reported.step, run.reported.total, run.reported.reported_at
    if step is None or total is None or at is None or not 0 < step < total:
        return None
    if run.hangs or run.reported.phase:
        return None
    left = left_by_pace(run)
    if left is None:
        return run.before if run.before is not None and run.before.latest > now else None
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
    """Whether it is worth telling to those who know another, or none."""
    if before is None:
        return True
    left = (found.latest - now).total_seconds()
    moved = ((found.expected, before.expected), (found.latest, before.latest))
    furthest = max(abs((mine - known).total_seconds()) for mine, known in moved)
    return furthest > max(1.0, WORTH_TELLING * left)


def spread_at(spreads: Sequence[Spread], done: float) -> Spread:
    """The spread of jobs of which that share is done."""
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
        # As if its speed had grown with its replicas: it has just been given these.
        return run.attained / step / run.replicas
    return None


def _mix(lower: float, upper: float, weight: float) -> float:
    return lower + (upper - lower) * weight


def _plain(step: float) -> float | int:
    return int(step) if step.is_integer() and abs(step) < 2**53 else step
