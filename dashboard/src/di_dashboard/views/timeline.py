"""View model of a job's timeline: phases and happenings on one time axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.phase import Phase
from di_api.timestamps import last_seen, parse_time
from di_api.wording import span
from di_cli.views.times import clock, local
from di_dashboard.history.seen import Change
from di_dashboard.views.jobs import mood_of
from di_dashboard.views.story import Gap, Happened, Story, kind_of_event

Object = Mapping[str, Any]

MOST_MARKS: Final = 200
"""Maximum number of marks; the oldest are left out."""
_TICKS: Final = 6
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800)
_DAY: Final = 86_400
_PHASE_REASONS: Final = {f"Job{phase}": phase for phase in Phase}
_CYCLE: Final = (
    Phase.PENDING.value,
    Phase.RESTARTING.value,
    Phase.RESCHEDULING.value,
    Phase.STARTING.value,
    Phase.RUNNING.value,
    Phase.SUCCEEDED.value,
    Phase.FAILED.value,
)
"""The order in which a job takes phases between two times in which it runs."""
_ENDS: Final = frozenset(phase.value for phase in Phase if phase.is_finished)
_LONGEST: Final = 300
_SOON: Final = 5.0
"""Seconds after a job's start within which its first phase is recorded, if at all."""
_SAME: Final = timedelta(seconds=120)
"""Maximum difference of two times of the same change: the API server's, and that of its
observation.
"""
FORGOTTEN: Final = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A phase with a time range; `left` and `width` are percent of the axis."""

    phase: str
    mood: str
    left: float
    width: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(Happened):
    """Something that happened, at its place on the axis.

    Attributes:
        left: percent of the axis.
    """

    left: float
    clock: str
    ago: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """A time without observation; `left` and `width` are percent of the axis."""

    left: float
    width: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The axis and everything on it.

    Attributes:
        start, end: of the axis; `end` is now, or the end of the job.
        ticks: lines on the axis: percent, time, and text.
        marks: the latest first.
        left_out: number of marks that are not shown.
    """

    start: datetime
    end: datetime
    spans: Sequence[Span]
    marks: Sequence[Mark]
    ticks: Sequence[tuple[float, datetime, str]]
    holes: Sequence[Hole] = ()
    left_out: int = 0


def timeline(
    job: Object,
    events: Iterable[Object],
    changes: Sequence[Change],
    now: datetime,
    story: Story | None = None,
) -> Timeline:
    """Return the timeline from all sources.

    The API server keeps events for an hour, conditions have the time of their last change,
    `changes` were observed by this process, and `story` is the history, which is a few seconds
    behind.
    """
    metadata, status = mapping(job.get("metadata")), mapping(job.get("status"))
    events, told = list(events), story or Story()
    start = parse_time(metadata.get("creationTimestamp")) or now
    end = parse_time(status.get("completionTimestamp")) or told.end or now
    end = max(end, start + timedelta(seconds=1))
    axis = _Axis(start, end)
    seen = [*_failures(status), *_scalings(changes), *_told(events)]
    happened = sorted([*told.happened, *_news(seen, told.happened)], key=lambda each: each.at)[::-1]
    return Timeline(
        start=start,
        end=end,
        spans=[*_spans(_phases(job, events, changes, told.phases), axis)],
        marks=[_mark(each, axis, now) for each in happened[:MOST_MARKS]],
        ticks=[(axis.left(at), at, text) for at, text in axis.ticks()],
        holes=[*_holes(told.gaps, axis)],
        left_out=max(0, len(happened) - MOST_MARKS),
    )


def _news(seen: Iterable[Happened], known: Sequence[Happened]) -> Iterator[Happened]:
    """Yield what the history does not have yet. If both have it, the history's version counts,
    because it has authors and log tails.
    """
    times: dict[tuple[str, str], list[datetime]] = {}
    for each in known:
        times.setdefault(_what_is_told(each), []).append(each.at)
    for each in seen:
        if not any(abs(each.at - at) < _SAME for at in times.get(_what_is_told(each), ())):
            yield each


def _what_is_told(happened: Happened) -> tuple[str, str]:
    # The history adds the author of a scaling.
    return happened.what, happened.text.partition(", asked by ")[0]


def _holes(gaps: Iterable[Gap], axis: _Axis) -> Iterator[Hole]:
    for each in gaps:
        left, right = axis.left(each.since), axis.left(each.until)
        if right > left:
            text = f"{each.text}, from {clock(each.since)}"
            yield Hole(left=left, width=round(right - left, 3), title=text)


@dataclass(frozen=True, slots=True)
class _Axis:
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()

    def left(self, at: datetime) -> float:
        share = (at - self.start).total_seconds() / self.seconds
        return round(100 * min(1.0, max(0.0, share)), 3)

    def ticks(self) -> Iterator[tuple[datetime, str]]:
        wanted = self.seconds / _TICKS
        step = next((each for each in _STEPS if each >= wanted), 0)
        step = step or int(-(-wanted // _DAY)) * _DAY
        # At whole minutes, hours and days of the reader's clock.
        here = self.start.astimezone()
        shift = (here.utcoffset() or timedelta()).total_seconds()
        first = -(-(self.start.timestamp() + shift) // step) * step - shift
        at = first
        while at <= self.end.timestamp():
            moment = datetime.fromtimestamp(at, UTC)
            text = clock(moment) if step < 60 else clock(moment)[:5]
            yield moment, text if step < _DAY else local(moment)[5:10]
            at += step


def _phases(
    job: Object,
    events: Iterable[Object],
    changes: Sequence[Change],
    kept: Sequence[tuple[datetime, str]],
) -> list[tuple[datetime, str]]:
    """Return the beginning of each phase, in order.

    Observed times are exact. Phases from before the observation have the API server's times, in
    whole seconds.
    """
    seen = [(each.at, each.text) for each in changes if each.kind == "phase"]
    metadata, status = mapping(job.get("metadata")), mapping(job.get("status"))
    told: list[tuple[datetime | None, str]] = [
        (parse_time(metadata.get("creationTimestamp")), Phase.PENDING.value)
    ]
    for event in events:
        phase = _PHASE_REASONS.get(str(event.get("reason")))
        if phase is not None and mapping(event.get("involvedObject")).get("kind") == "DIJob":
            told += [(parse_time(event.get("firstTimestamp")), phase), (last_seen(event), phase)]
    told = [*sorted(((at, phase) for at, phase in told if at), key=_of_one_cycle), *kept]
    for each in map(mapping, items(status.get("conditions"))):
        if each.get("type") in tuple(Phase) and each.get("status") == "True":
            told.append((parse_time(each.get("lastTransitionTime")), str(each["type"])))
    told += _forgotten(status, told)
    # Of one second the sources count in the order in which they were added: Events, the history,
    # which knows the order of its own, and the condition, which is the present phase.
    before = sorted(
        ((at, phase) for at, phase in told if at and (not seen or at <= seen[0][0])),
        key=lambda each: each[0],
    )
    return [*before, *seen]


def _of_one_cycle(told: tuple[datetime, str]) -> tuple[datetime, int]:
    """Sort Events of one second as a job goes through its phases: none says which came first."""
    at, phase = told
    return at, _CYCLE.index(phase) if phase in _CYCLE else 0


def _forgotten(
    status: Object, told: Sequence[tuple[datetime | None, str]]
) -> list[tuple[datetime | None, str]]:
    """Add that a job that started long ago has not been Pending since; other changes in between are
    unknown.
    """
    started = parse_time(status.get("startTime"))
    if started is None:
        return []
    soon = started + timedelta(seconds=_SOON)
    known = [at for at, phase in told if at and phase != Phase.PENDING and at <= soon]
    return [] if known else [(started, FORGOTTEN)]


def _spans(phases: Sequence[tuple[datetime, str]], axis: _Axis) -> Iterator[Span]:
    merged: list[tuple[datetime, str]] = []
    for at, phase in phases:
        if not merged or merged[-1][1] != phase:
            merged.append((at, phase))
    ends = [*(at for at, _ in merged[1:]), axis.end]
    for (at, phase), until in zip(merged, ends, strict=False):
        left, right = axis.left(at), axis.left(until)
        # The axis ends with the job: an end with a duration means two different clocks.
        if right > left and phase not in _ENDS:
            length = span((until - at).total_seconds())
            said = f"{phase} for {length}"
            if phase == FORGOTTEN:
                said = f"started, and {length} of which the cluster remembers no phases"
            yield Span(
                phase=phase,
                mood="forgotten" if phase == FORGOTTEN else mood_of(phase),
                left=left,
                width=round(right - left, 3),
                title=f"{said}, from {clock(at)}",
            )


def _failures(status: Object) -> Iterator[Happened]:
    for each in map(mapping, items(status.get("failures"))):
        if (at := parse_time(each.get("time"))) is not None:
            code, reason = each.get("exitCode"), str(each.get("reason") or "")
            ended = f"exit code {code}" if isinstance(code, int) else ""
            said = ", ".join(part for part in (ended, reason) if part)
            text = f"{each.get('pod') or 'a pod'}: {said or 'lost'}"
            yield Happened(at=at, kind="restart", what="pod failed", text=text)


def _scalings(changes: Iterable[Change]) -> Iterator[Happened]:
    for each in changes:
        if each.kind == "replicas":
            yield Happened(at=each.at, kind="scale", what="scaled", text=each.text)


def _told(events: Iterable[Object]) -> Iterator[Happened]:
    for event in events:
        at, reason = last_seen(event), str(event.get("reason") or "")
        about = mapping(event.get("involvedObject"))
        if at is None or about.get("kind") != "DIJob":
            continue
        count = mapping(event.get("series")).get("count") or event.get("count") or 1
        yield Happened(
            at=at,
            kind=kind_of_event(reason, warns=event.get("type") == "Warning"),
            what=reason,
            text=" ".join(str(event.get("message") or "").split()),
            count=count if isinstance(count, int) else 1,
        )


def _mark(happened: Happened, axis: _Axis, now: datetime) -> Mark:
    text = happened.text
    return Mark(
        at=happened.at,
        kind=happened.kind,
        left=axis.left(happened.at),
        what=happened.what,
        text=text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…",
        clock=clock(happened.at),
        ago=span((now - happened.at).total_seconds()),
        count=happened.count,
        lines=happened.lines,
    )
