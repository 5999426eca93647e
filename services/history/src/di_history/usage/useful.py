"""The use of time, from the states of a job and its reports.

A report describes the time since the one before. A pod of a learner, or of a task without a role,
waits for the share `learnerWaitFrac` of the time, and one of a collector for `collectorWaitFrac`.
Of the rest of a collector's time the share `staleFrac` made samples that were discarded as too old.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter, sub
from typing import Final, NamedTuple

from msgspec import Struct

from di_api.spec.task import TaskType
from di_history.records import Millis
from di_history.usage.states import Span, State


class Use(StrEnum):
    """A use of GPU time."""

    TRAINING = "training"
    WAITING = "waiting"
    STALE = "stale"
    STARTING = "starting"
    LOST = "lost"
    """Work that a failure undid, and the replacement of pods."""
    ENDED = "ended"
    NOT_KNOWN = "notKnown"


USE_OF: Final[Mapping[State, Use]] = {
    State.RUNNING: Use.TRAINING,
    State.STARTING: Use.STARTING,
    State.PENDING: Use.STARTING,
    State.REPLACING: Use.LOST,
    State.ENDED: Use.ENDED,
    State.NOT_KNOWN: Use.NOT_KNOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The numbers of a job's reports that count here, in order of time.

    One list for each number: a month has too many reports for an object of each. All have the
    length of `at`; shares are from 0 to 1.
    """

    at: Sequence[Millis] = ()
    step: Sequence[float | None] = ()
    learner_waits: Sequence[float] = ()
    collector_waits: Sequence[float] = ()
    stale: Sequence[float] = ()


NO_REPORTS: Final = Reports()


class Spent(NamedTuple):
    """Milliseconds of a running job that were not training."""

    waiting: float = 0.0
    stale: float = 0.0
    lost: float = 0.0


class Track:
    """The sums of what the running time of a job was spent on by each role, up to any time.

    Args:
        spans: of the job, in order.
        reports: of the job.
    """

    def __init__(self, spans: Sequence[Span], reports: Reports) -> None:
        self._times = times = list[Millis]()
        self._sums = sums = list[tuple[float, float, float, float]]()
        undone = list(_undone(spans, reports))
        arrived, discarded = reports.at, reports.stale
        learner_waits, collector_waits = reports.learner_waits, reports.collector_waits
        learner = collector = stale = lost = 0.0
        # One pass for all roles: the answers about a month spend much of their time here.
        for span in spans:
            if span.state is not State.RUNNING:
                continue
            begin = span.since
            times.append(begin)
            sums.append((learner, collector, stale, lost))
            # The next report of the span describes a time, or else its last report.
            place, after = bisect_right(arrived, begin), bisect_right(arrived, span.until)
            has_reports, last_place = place < after, after - 1
            for end in _ends(span, arrived[place:after], undone):
                time = end - begin
                while place < last_place and arrived[place] < end:
                    place += 1
                if undone and any(first <= begin and end <= last for first, last in undone):
                    lost += time
                elif has_reports:
                    learner += time * learner_waits[place]
                    waited = time * collector_waits[place]
                    collector += waited
                    stale += (time - waited) * discarded[place]
                times.append(end)
                sums.append((learner, collector, stale, lost))
                begin = end

    def spent(self, role: str, since: Millis, until: Millis) -> Spent:
        """Return what the time of a pod was spent on.

        Args:
            role: type of its task.
        """
        if role == TaskType.EVALUATOR:
            return Spent()
        learner, collector, stale, lost = map(sub, self._until(until), self._until(since))
        if role == TaskType.COLLECTOR:
            return Spent(collector, stale, lost)
        return Spent(learner, 0.0, lost)

    def _until(self, at: Millis) -> tuple[float, float, float, float]:
        times = self._times
        if not times or at <= times[0]:
            return 0.0, 0.0, 0.0, 0.0
        place = min(bisect_right(times, at), len(times) - 1)
        first, last = times[place - 1], times[place]
        before, after = self._sums[place - 1], self._sums[place]
        if at >= last:
            return after
        part = (at - first) / (last - first)
        return (
            before[0] + (after[0] - before[0]) * part,
            before[1] + (after[1] - before[1]) * part,
            before[2] + (after[2] - before[2]) * part,
            before[3] + (after[3] - before[3]) * part,
        )


class Report(Struct, frozen=True, gc=False, rename="camel"):
    """The numbers of one report that count here."""

    step: float | None = None
    learner_wait_frac: float = 0.0
    collector_wait_frac: float = 0.0
    stale_frac: float = 0.0


def reports_of(at: Sequence[Millis], found: Sequence[Report]) -> Reports:
    """Return what counts of reports in any order; shares outside 0 to 1 are cut."""
    # Most are in order, which costs less to find out than a sort of the pairs.
    if at != (ordered := sorted(at)):
        found = [each for _, each in sorted(zip(at, found, strict=True), key=itemgetter(0))]
        at = ordered
    return Reports(
        at=at,
        step=[each.step for each in found],
        learner_waits=_shares([each.learner_wait_frac for each in found]),
        collector_waits=_shares([each.collector_wait_frac for each in found]),
        stale=_shares([each.stale_frac for each in found]),
    )


def _shares(values: Iterable[float]) -> list[float]:
    # NaN counts as 0.
    return [each if 0.0 <= each <= 1.0 else (1.0 if each > 1.0 else 0.0) for each in values]


def _ends(
    span: Span, arrived: Sequence[Millis], undone: Sequence[tuple[Millis, Millis]]
) -> Sequence[Millis]:
    """Return the ends of the parts of a span, each with one use: its reports, and what was undone.

    Args:
        arrived: times of the span's reports.
    """
    ends = [*arrived]
    if not ends or ends[-1] < span.until:
        ends.append(span.until)
    if undone:
        cuts = {each for pair in undone for each in pair if span.since < each < span.until}
        return sorted({*ends, *cuts})
    return ends


def _undone(spans: Sequence[Span], reports: Reports) -> Iterator[tuple[Millis, Millis]]:
    """Yield the times of work that was repeated: after a replacement of pods the next report has a
    lower step than the last one before.
    """
    for number, span in enumerate(spans):
        if span.state is not State.REPLACING:
            continue
        last = bisect_right(reports.at, span.since) - 1
        following = bisect_left(reports.at, span.until)
        if last < 0 or following >= len(reports.at):
            continue
        step, reached = reports.step[following], reports.step[last]
        if step is None or reached is None or step >= reached:
            continue
        kept = next(
            (
                reports.at[place]
                for place in range(last, -1, -1)
                if (saved := reports.step[place]) is not None and saved <= step
            ),
            None,
        )
        yield min(each.since for each in spans[: number + 1]) if kept is None else kept, span.since
