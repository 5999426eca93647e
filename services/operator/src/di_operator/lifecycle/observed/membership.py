"""One pure step of a process group: from its previous state and the running members to the next.

| observed | result |
|---|---|
| the running members differ from the group | a round begins with those that run |
| all wanted members have joined | the round ends at once |
| fewer than the minimum have joined | the members are not written to the status yet |
| none joined for `last_call` seconds, and the minimum is reached | the round ends |
| the round has lasted `deadline` seconds | the round ends without the missing members |
| a round ends with at least the minimum | a group with the next generation |
| a round ends with fewer | no group; the next member that joins begins another round |

All times are in the previous state, so a new leader continues from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from di_api.status.groups import GroupState, GroupStatus
from di_api.timestamps import format_time
from di_operator.lifecycle.vocabulary.timestamps import parse_time

FORMING, FORMED, INSUFFICIENT = GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The parameters of a round; times in seconds."""

    wanted: int
    """The round ends at once with this number of members."""
    least: int
    """Minimum number of members of a group."""
    last_call: float
    deadline: float


def next_step(
    before: GroupStatus | None, running: Mapping[int, str], terms: Terms, now: datetime
) -> GroupStatus | None:
    """Return the next state of the group, None while no member has ever joined.

    Args:
        before: the state in the job's status.
        running: the running members by local index: the pod, and which of its processes.
    """
    if before is None and not running:
        return None
    before = before or GroupStatus(members={})
    if before.state is FORMED and running == before.members:
        return before
    if before.state is not INSUFFICIENT and not running:
        return GroupStatus(generation=before.generation, members={})
    if _is_short(before, running, terms, now):
        return before
    has_joined = any(before.members.get(index) != uid for index, uid in running.items())
    if before.state is INSUFFICIENT and not has_joined and len(running) < terms.least:
        return replace(before, members=running)
    return _judged(_with_round(before, running, has_joined, now), terms, now)


def time_left(group: GroupStatus, terms: Terms, now: datetime) -> float | None:
    """Return the seconds until the round ends by time; None without a round or without members."""
    if group.state is not FORMING or not group.members:
        return None
    left = terms.deadline - _passed(group.since, now)
    if len(group.members) < terms.least:
        return left
    return min(left, terms.last_call - _passed(group.last_join, now))


def _is_short(before: GroupStatus, running: Mapping[int, str], terms: Terms, now: datetime) -> bool:
    """Return whether a round goes on that has always had fewer members than the minimum.

    While the pods of a group start, a thousand of them would otherwise cause a thousand writes.
    """
    if before.state is not FORMING or max(len(before.members), len(running)) >= terms.least:
        return False
    left = time_left(before, terms, now)
    return left is not None and left > 0


def _with_round(
    before: GroupStatus, running: Mapping[int, str], has_joined: bool, now: datetime
) -> GroupStatus:
    """Return the current round, or a new one with the running members."""
    is_on = before.state is FORMING and bool(before.members)
    return replace(
        before,
        state=FORMING,
        members=running,
        since=_time(before.since if is_on else None, now),
        last_join=_time(before.last_join if is_on and not has_joined else None, now),
    )


def _judged(group: GroupStatus, terms: Terms, now: datetime) -> GroupStatus:
    left = time_left(group, terms, now)
    enough = len(group.members) >= terms.least
    is_over = left is not None and left <= 0
    over = replace(group, since=format_time(now), last_join=None)
    if enough and (is_over or len(group.members) >= terms.wanted):
        return replace(over, state=FORMED, generation=group.generation + 1)
    return replace(over, state=INSUFFICIENT) if is_over else group


def _time(written: str | None, now: datetime) -> str:
    """Return a time from the status; now if it cannot be parsed or is in the future."""
    moment = parse_time(written)
    return format_time(now) if written is None or moment is None or moment > now else written


def _passed(since: str | None, now: datetime) -> float:
    began = parse_time(since)
    return (now - began).total_seconds() if began is not None else 0.0
