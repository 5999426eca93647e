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
from operator import itemgetter
from typing import Final, NamedTuple

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
    """The sums of what the running time of one role was spent on, up to any time.

    Args:
        spans: of the job, in order.
        reports: of the job.
        role: type of the task.
    """

    def __init__(self, spans: Sequence[Span], reports: Reports, role: str) -> None:
        self._times = times = list[Millis]()
        self._sums = sums = list[tuple[float, float, float]]()
        if role == TaskType.EVALUATOR:
            return
        undone = list(_undone(spans, reports))
        is_collector = role == TaskType.COLLECTOR
        arrived = reports.at
        waits = reports.collector_waits if is_collector else reports.learner_waits
        discarded = reports.stale if is_collector else [0.0] * len(arrived)
        waiting = stale = lost = 0.0
        for span in spans:
            if span.state is not State.RUNNING:
                continue
            begin = span.since
            times.append(begin)
            sums.append((waiting, stale, lost))
            # The next report of the span describes a time, or else its last report.
            place, after = bisect_right(arrived, begin), bisect_right(arrived, span.until)
            has_reports = place < after
            for end in _ends(span, arrived[place:after], undone):
                time = end - begin
                while place < after - 1 and arrived[place] < end:
                    place += 1
                if undone and any(first <= begin and end <= last for first, last in undone):
                    lost += time
                elif has_reports:
                    waited = time * waits[place]
                    waiting += waited
                    stale += (time - waited) * discarded[place]
                times.append(end)
                sums.append((waiting, stale, lost))
                begin = end

    def spent(self, since: Millis, until: Millis) -> Spent:
        """Return what the time of a pod was spent on."""
        first, last = self._until(since), self._until(until)
        return Spent(last[0] - first[0], last[1] - first[1], last[2] - first[2])

    def _until(self, at: Millis) -> tuple[float, float, float]:
        times = self._times
        if not times or at <= times[0]:
            return 0.0, 0.0, 0.0
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
        )


def reports_of(at: Sequence[Millis], values: Sequence[Mapping[str, float]]) -> Reports:
    """Return what counts of reports in any order; shares outside 0 to 1 are cut."""
    # Most are in order, which costs less to find out than a sort of the pairs.
    if at != (ordered := sorted(at)):
        values = [each for _, each in sorted(zip(at, values, strict=True), key=itemgetter(0))]
        at = ordered
    return Reports(
        at=at,
        step=[each.get("step") for each in values],
        learner_waits=_shares(values, "learnerWaitFrac"),
        collector_waits=_shares(values, "collectorWaitFrac"),
        stale=_shares(values, "staleFrac"),
    )


def _shares(values: Iterable[Mapping[str, float]], name: str) -> list[float]:
    found = [each.get(name, 0.0) for each in values]
    # NaN counts as 0.
    return [each if 0.0 <= each <= 1.0 else (1.0 if each > 1.0 else 0.0) for each in found]


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
