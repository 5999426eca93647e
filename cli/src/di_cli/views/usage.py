"""GPU-hours that pods held on nodes, by group and by the phase of their job.

Times are milliseconds since 1970, so that sums are exact.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from di_api.field_error import mapping
from di_api.phase import Phase
from di_api.timestamps import parse_time

Object = Mapping[str, Any]
_HOUR: Final = 3_600_000
_DECIMALS: Final = 6
_NOT_KNOWN: Final = ""
_AUTHOR: Final = re.compile(r"([^()]+) \([^()]+\)")
"""`user (program)`, as the history writes it; with more parentheses it is ambiguous."""


class By(StrEnum):
    """The property that groups placements."""

    JOB = "job"
    NAMESPACE = "namespace"
    NODE = "node"
    TASK = "task"
    USER = "user"


class State(StrEnum):
    """The state of a job while its pods held GPUs: one or more phases, or none that is known."""

    RUNNING = "running"
    STARTING = "starting"
    PENDING = "pending"
    REPLACING = "replacing"
    ENDED = "ended"
    NOT_KNOWN = "notKnown"


_STATES: Final[Mapping[str, State]] = {
    Phase.RUNNING: State.RUNNING,
    Phase.STARTING: State.STARTING,
    Phase.PENDING: State.PENDING,
    Phase.RESTARTING: State.REPLACING,
    Phase.RESCHEDULING: State.REPLACING,
    Phase.SUCCEEDED: State.ENDED,
    Phase.FAILED: State.ENDED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A pod on a node, within the window.

    Attributes:
        job: UID of its job; `name` is the job's name.
    """

    job: str
    namespace: str
    name: str
    node: str
    task: str
    gpus: int
    since: int
    until: int

    @property
    def gpu_time(self) -> int:
        """Return the milliseconds of all its GPUs."""
        return self.gpus * (self.until - self.since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time for which the state of a job is known."""

    since: int
    until: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The data of a job that its placements lack.

    Attributes:
        spans: as returned by `spans`.
        user: as returned by `user`.
    """

    spans: Sequence[Span] = ()
    user: str = _NOT_KNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The time that pods and GPUs of a group were held.

    Attributes:
        pod_time, gpu_time: in milliseconds of one pod, or of one GPU.
        by_state: the GPUs' time by the state of the job; their sum is `gpu_time`.
    """

    jobs: int = 0
    pods: int = 0
    pod_time: int = 0
    gpu_time: int = 0
    by_state: Mapping[State, int] = field(default_factory=dict)


_NOTHING: Final = Known()


def held(rows: Iterable[Object], since: int, until: int) -> list[Held]:
    """Return the placements of the history, clipped to the window; those outside it are left out.

    A placement without an end lasts until the end of the window.
    """
    found = []
    for row in rows:
        first, last = millis(row.get("since")), millis(row.get("until"))
        if first is None:
            continue
        first = max(first, since)
        last = until if last is None else min(last, until)
        if first < last:
            found.append(
                Held(
                    job=str(row.get("job") or ""),
                    namespace=str(row.get("namespace") or ""),
                    name=str(row.get("name") or ""),
                    node=str(row.get("node") or ""),
                    task=str(row.get("task") or ""),
                    gpus=int(row.get("gpus") or 0),
                    since=first,
                    until=last,
                )
            )
    return found


def spans(timeline: Iterable[Object], until: int) -> list[Span]:
    """Return the times of known states of a job, in order; they do not overlap.

    Args:
        timeline: its entries of the kinds `phase`, `gap` and `deleted`, in order of time.
        until: the last phase of a job that exists lasts until then.
    """
    entries = [mapping(each) for each in timeline]
    phases = [each for each in entries if each.get("kind") == "phase"]
    gaps = [
        (first, last)
        for each in entries
        if each.get("kind") == "gap"
        and (first := millis(each.get("from"))) is not None
        and (last := millis(each.get("at"))) is not None
        and first < last
    ]
    for each in entries:
        if each.get("kind") == "deleted":
            end = millis(each.get("after") or each.get("at"))
            until = until if end is None else min(until, end)
    found: list[Span] = []
    for number, entry in enumerate(phases):
        after = phases[number + 1] if number + 1 < len(phases) else None
        state = _STATES.get(str(entry.get("phase")))
        # Otherwise a phase between the two is missing, and so is its beginning.
        is_next = after is None or after.get("before") == entry.get("phase")
        first = millis(entry.get("at"))
        last = until if after is None else min(until, millis(after.get("at")) or until)
        if state is not None and is_next and first is not None:
            found += _without(Span(since=first, until=last, state=state), gaps)
    return found


def user(revisions: Iterable[Object]) -> str:
    """Return the user who created a job, by its first revision; empty if it is not known."""
    for each in map(mapping, revisions):
        if each.get("number") == 1 and (author := _AUTHOR.fullmatch(str(each.get("who") or ""))):
            return author[1]
    return _NOT_KNOWN


def usage(placements: Iterable[Held], by: By, known: Mapping[str, Known]) -> dict[str, Usage]:
    """Return the usage of each group: most GPU time first, then by name.

    Args:
        placements: as returned by `held`.
        by: what the groups are.
        known: by the UID of the job.
    """
    groups: dict[str, list[Held]] = {}
    for each in placements:
        groups.setdefault(_group(each, by, known), []).append(each)
    found = {name: total(group, known) for name, group in groups.items()}
    return dict(sorted(found.items(), key=lambda pair: (-pair[1].gpu_time, pair[0])))


def total(placements: Sequence[Held], known: Mapping[str, Known]) -> Usage:
    """Return the usage of all these placements together."""
    by_state = dict.fromkeys(State, 0)
    for each in placements:
        left = each.gpu_time
        for state, time in _split(each, known.get(each.job, _NOTHING).spans) if left else ():
            by_state[state] += time * each.gpus
            left -= time * each.gpus
        by_state[State.NOT_KNOWN] += left
    return Usage(
        jobs=len({each.job for each in placements}),
        pods=len(placements),
        pod_time=sum(each.until - each.since for each in placements),
        gpu_time=sum(each.gpu_time for each in placements),
        by_state=by_state,
    )


def record(found: Usage, *, phases: bool) -> dict[str, Any]:
    """Return a usage for programs, with times in hours."""
    return {
        "jobs": found.jobs,
        "pods": found.pods,
        "podHours": _hours(found.pod_time),
        "gpuHours": _hours(found.gpu_time),
        **({f"{key}": _hours(time) for key, time in found.by_state.items()} if phases else {}),
    }


def header(by: By, *, phases: bool) -> tuple[str, ...]:
    """Return the header of the table."""
    states = ("RUNNING", "STARTING", "PENDING", "REPLACING", "ENDED", "NOT KNOWN")
    return (by.upper(), "JOBS", "PODS", "POD-HOURS", "GPU-HOURS", *(states if phases else ()))


def row(name: str, found: Usage, *, phases: bool) -> tuple[str, ...]:
    """Return the row of a group, with times in hours."""
    times = [found.pod_time, found.gpu_time, *(found.by_state.values() if phases else ())]
    hours = (f"{time / _HOUR:.2f}" for time in times)
    return (name or "not known", str(found.jobs), str(found.pods), *hours)


def millis(value: object) -> int | None:
    """Return an RFC 3339 time in milliseconds; None if it is invalid."""
    found = parse_time(value)
    return None if found is None else round(found.timestamp() * 1000)


def _hours(time: int) -> float:
    return round(time / _HOUR, _DECIMALS)


def _group(each: Held, by: By, known: Mapping[str, Known]) -> str:
    names = {
        By.JOB: f"{each.namespace}/{each.name}",
        By.NAMESPACE: each.namespace,
        By.NODE: each.node,
        By.TASK: each.task,
        By.USER: known.get(each.job, _NOTHING).user,
    }
    return names[by]


def _split(each: Held, known: Sequence[Span]) -> Iterator[tuple[State, int]]:
    """Yield the parts of its time whose state is known."""
    first = bisect_right(known, each.since, key=lambda span: span.until)
    for span in known[first:]:
        if span.since >= each.until:
            return
        yield span.state, min(span.until, each.until) - max(span.since, each.since)


def _without(span: Span, gaps: Iterable[tuple[int, int]]) -> list[Span]:
    """Return the parts of a span that are outside all gaps."""
    parts = [span]
    for first, last in gaps:
        parts = [
            part
            for each in parts
            for part in (
                replace(each, until=min(each.until, first)),
                replace(each, since=max(each.since, last)),
            )
        ]
        parts = [each for each in parts if each.since < each.until]
    return [each for each in parts if each.since < each.until]
