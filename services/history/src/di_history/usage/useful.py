"""The use of time, from the states of a job and its reports.

A report describes the time since the one before. A pod of a learner, or of a task without a role,
waits for the share `learnerWaitFrac` of the time, and one of a collector for `collectorWaitFrac`.
Of the rest of a collector's time the share `staleFrac` made samples that were discarded as too old.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
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


class Report(NamedTuple):
    """The numbers of one report that count here."""

    at: Millis
    step: float | None = None
    learner_waits: float = 0.0
    collector_waits: float = 0.0
    stale: float = 0.0


class Spent(NamedTuple):
    """Milliseconds of a running job that were not training."""

    waiting: float = 0.0
    stale: float = 0.0
    lost: float = 0.0


class Track:
    """The sums of what the running time of one role was spent on, up to any time.

    Args:
        spans: of the job, in order.
        reports: in order of time.
        role: type of the task.
    """

    def __init__(self, spans: Sequence[Span], reports: Sequence[Report], role: str) -> None:
        self._times: list[Millis] = []
        self._waiting: list[float] = []
        self._stale: list[float] = []
        self._lost: list[float] = []
        if role == TaskType.EVALUATOR:
            return
        undone = list(_undone(spans, reports))
        waiting = stale = lost = 0.0
        is_collector = role == TaskType.COLLECTOR
        for span in spans:
            if span.state is not State.RUNNING:
                continue
            self._add(span.since, waiting, stale, lost)
            for first, last, report in _parts(span, reports, undone):
                time = last - first
                if undone and any(begin <= first and last <= end for begin, end in undone):
                    lost += time
                elif report is not None and is_collector:
                    waits = time * report.collector_waits
                    waiting += waits
                    stale += (time - waits) * report.stale
                elif report is not None:
                    waiting += time * report.learner_waits
                self._add(last, waiting, stale, lost)

    def spent(self, since: Millis, until: Millis) -> Spent:
        """Return what the time of a pod was spent on."""
        first, last = self._until(since), self._until(until)
        return Spent(last[0] - first[0], last[1] - first[1], last[2] - first[2])

    def _add(self, at: Millis, waiting: float, stale: float, lost: float) -> None:
        self._times.append(at)
        self._waiting.append(waiting)
        self._stale.append(stale)
        self._lost.append(lost)

    def _until(self, at: Millis) -> tuple[float, float, float]:
        times = self._times
        if not times or at <= times[0]:
            return 0.0, 0.0, 0.0
        place = min(bisect_right(times, at), len(times) - 1)
        first, last = times[place - 1], times[place]
        part = 1.0 if at >= last else (at - first) / (last - first)
        waiting, stale, lost = self._waiting, self._stale, self._lost
        return (
            waiting[place - 1] + (waiting[place] - waiting[place - 1]) * part,
            stale[place - 1] + (stale[place] - stale[place - 1]) * part,
            lost[place - 1] + (lost[place] - lost[place - 1]) * part,
        )


def report_of(at: Millis, values: Mapping[str, float]) -> Report:
    """Return a report from its numbers; shares outside 0 to 1 are cut."""
    number = values.get
    learner = number("learnerWaitFrac", 0.0)
    collector = number("collectorWaitFrac", 0.0)
    stale = number("staleFrac", 0.0)
    return Report(
        at,
        number("step"),
        learner if 0.0 <= learner <= 1.0 else _cut(learner),
        collector if 0.0 <= collector <= 1.0 else _cut(collector),
        stale if 0.0 <= stale <= 1.0 else _cut(stale),
    )


def _cut(value: float) -> float:
    # Also NaN is 0.
    return 1.0 if value > 1 else 0.0


def _parts(
    span: Span, reports: Sequence[Report], undone: Sequence[tuple[Millis, Millis]]
) -> Iterator[tuple[Millis, Millis, Report | None]]:
    """Yield the parts of a span, each with the report that describes it: the next one of the span,
    or its last.
    """
    first = bisect_right(reports, span.since, key=_at)
    inside = reports[first : bisect_right(reports, span.until, key=_at)]
    bounds = [span.since, *[each.at for each in inside], span.until]
    if undone:
        cuts = {each for pair in undone for each in pair if span.since < each < span.until}
        bounds = sorted({*bounds, *cuts})
    place, final = 0, len(inside) - 1
    begin = bounds[0]
    for end in bounds[1:]:
        if begin < end:
            while place < final and inside[place].at < end:
                place += 1
            yield begin, end, inside[place] if inside else None
        begin = end


def _undone(spans: Sequence[Span], reports: Sequence[Report]) -> Iterator[tuple[Millis, Millis]]:
    """Yield the times of work that was repeated: after a replacement of pods the next report has a
    lower step than the last one before.
    """
    for number, span in enumerate(spans):
        if span.state is not State.REPLACING:
            continue
        last = bisect_right(reports, span.since, key=_at) - 1
        following = bisect_left(reports, span.until, key=_at)
        if last < 0 or following >= len(reports):
            continue
        step, reached = reports[following].step, reports[last].step
        if step is None or reached is None or step >= reached:
            continue
        kept = next(
            (
                each.at
                for each in reversed(reports[: last + 1])
                if each.step is not None and each.step <= step
            ),
            None,
        )
        yield min(each.since for each in spans[: number + 1]) if kept is None else kept, span.since


def _at(report: Report) -> Millis:
    return report.at
