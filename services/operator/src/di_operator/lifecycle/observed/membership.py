"""Who belongs to a process group: one pure step from what stood before and who runs now.

| seen | what follows |
|---|---|
| somebody runs, and the world is not who runs | a round begins; who runs has joined |
| all that are wanted have joined | the round is over at once |
| fewer than the least have joined | nothing is written of who they are: it is not asked for |
| nobody has joined for `last_call` seconds, and there are as many as the least | it is over |
| it has lasted `deadline` seconds | it is over, whoever is missing |
| it is over, with as many as the least | a world, under the next generation |
| it is over, with fewer | none; whoever joins then begins another round |

All times are in what stood before, so whoever decides next goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from di_api.group_status import GroupState, GroupStatus
from di_api.timestamps import format_time
from di_operator.lifecycle.vocabulary.timestamps import parse_time

FORMING, FORMED, INSUFFICIENT = GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a round goes by; times in seconds."""

    wanted: int
    """Members with whom it is over at once."""
    least: int
    """Members without whom there is no world."""
    last_call: float
    deadline: float


def next_step(
    before: GroupStatus | None, running: Mapping[int, str], terms: Terms, now: datetime
) -> GroupStatus | None:
    """The group from now on, None while nobody has ever joined.

    Args:
        before: as it stands in the job's status.
        running: by local index who runs, and nobody else is called so: the pod, and which of the
            processes that it has had.
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
    """Seconds until the round is over by the clock, None if there is none, or nobody in it."""
    if group.state is not FORMING or not group.members:
        return None
    left = terms.deadline - _passed(group.since, now)
    if len(group.members) < terms.least:
        return left
    return min(left, terms.last_call - _passed(group.last_join, now))


def _is_short(before: GroupStatus, running: Mapping[int, str], terms: Terms, now: datetime) -> bool:
    """Whether a round goes on in which there have been fewer than the least.

    A group of a thousand pods would be written a thousand times otherwise while they start.
    """
    if before.state is not FORMING or max(len(before.members), len(running)) >= terms.least:
        return False
    left = time_left(before, terms, now)
    return left is not None and left > 0


def _with_round(
    before: GroupStatus, running: Mapping[int, str], has_joined: bool, now: datetime
) -> GroupStatus:
    """The round that is on, or the one that begins now with those who run."""
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
    """A time in the status; now in place of one that cannot be read or is to come."""
    moment = parse_time(written)
    return format_time(now) if written is None or moment is None or moment > now else written


def _passed(since: str | None, now: datetime) -> float:
    began = parse_time(since)
    return (now - began).total_seconds() if began is not None else 0.0
