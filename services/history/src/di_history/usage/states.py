"""The states of a job over time, from its timeline.

Times are milliseconds since 1970, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from di_api.phase import Phase
from di_history.records import EntryKind, Millis

Object = Mapping[str, Any]


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


class Span(NamedTuple):
    """A time for which the state of a job is known."""

    since: Millis
    until: Millis
    state: State


def spans(timeline: Sequence[Object], until: Millis) -> list[Span]:
    """Return the times of known states of a job, in order; they do not overlap.

    Args:
        timeline: its entries of the kinds `phase`, `gap` and `deleted`, in order of time.
        until: the last phase of a job that exists lasts until then.
    """
    phases: list[Object] = []
    gaps: list[tuple[Millis, Millis]] = []
    for each in timeline:
        kind = each["kind"]
        if kind == EntryKind.PHASE:
            phases.append(each)
        elif kind == EntryKind.DELETED:
            until = min(until, each.get("after", each["at"]))
        elif kind == EntryKind.GAP and each["from"] < each["at"]:
            gaps.append((each["from"], each["at"]))
    found: list[Span] = []
    for number, entry in enumerate(phases):
        after = phases[number + 1] if number + 1 < len(phases) else None
        state = _STATES.get(str(entry.get("phase")))
        # Otherwise a phase between the two is missing, and so is its beginning.
        is_next = after is None or after.get("before") == entry.get("phase")
        if state is not None and is_next:
            last = until if after is None else min(until, after["at"])
            found += _without(Span(since=entry["at"], until=last, state=state), gaps)
    return found


def _without(span: Span, gaps: Sequence[tuple[Millis, Millis]]) -> list[Span]:
    """Return the parts of a span that are outside all gaps."""
    if not gaps:
        return [span] if span.since < span.until else []
    parts = [span]
    for first, last in gaps:
        parts = [
            part
            for each in parts
            for part in (
                each._replace(until=min(each.until, first)),
                each._replace(since=max(each.since, last)),
            )
        ]
        parts = [each for each in parts if each.since < each.until]
    return [each for each in parts if each.since < each.until]
