"""Reports running pods whose heartbeats have stopped: the condition MemberSilent.

Only a pod that has sent one since the job became Running is expected to send the next. A heartbeat
has the time until the next one. That time begins again after an outage, in which reports could not
arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from di_api.phase import Phase
from di_api.timestamps import format_time
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.policies.progress import AWAY_LOOK
from di_operator.lifecycle.policy import Policy, Report
from di_operator.lifecycle.vocabulary.conditions import Aside, is_true, kept
from di_operator.lifecycle.vocabulary.reasons import Problem

_SHOWN: Final = 3
_HEARD: Final = Aside(
    type=Problem.MEMBER_SILENT,
    value=False,
    reason="MembersHeard",
    message="every pod that sends heartbeats was heard in time, or does not run",
)
_ALL_HEARD: Final = Report(conditions=(_HEARD,))


def report_silent_members(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the condition for pods that are silent; it stays while reports cannot arrive."""
    if not snapshot.status.reported.heartbeats:
        return _ALL_HEARD
    conditions = snapshot.status.conditions
    if snapshot.reports_since is None:
        if is_true(conditions, Problem.MEMBER_SILENT):
            return Report(conditions=tuple(kept(conditions, Problem.MEMBER_SILENT)))
        return _ALL_HEARD
    silent = sorted(
        (at, pod, within) for pod, at, within, left in _heard(snapshot, now) if not left
    )
    if not silent:
        return _ALL_HEARD
    at, _, within = silent[0]
    names = [pod for _, pod, _ in silent]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    message = (
        f"no heartbeat from {', '.join(names[:_SHOWN])}{more}; the first is silent since "
        f"{format_time(at)}, for longer than {count_of(within, 'second')}"
    )
    told = Aside(type=Problem.MEMBER_SILENT, value=True, reason="NoHeartbeat", message=message)
    return Report(conditions=(told,))


def silence_time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until the next pod counts as silent; None if none does."""
    if not snapshot.status.reported.heartbeats:
        return None
    if snapshot.reports_since is None:
        return AWAY_LOOK if snapshot.status.phase is Phase.RUNNING else None
    return min((left for *_, left in _heard(snapshot, now) if left), default=None)


def _heard(snapshot: Snapshot, now: datetime) -> Iterator[tuple[str, datetime, int, float]]:
    """Yield each running pod that has sent a heartbeat: its name, the time of the last one, the
    limit, and the seconds until that is over.
    """
    since, running = snapshot.reports_since, snapshot.status.transitioned
    if since is None or running is None or snapshot.status.phase is not Phase.RUNNING:
        return
    beats = snapshot.status.reported.heartbeats
    for pod in snapshot.live:
        beat = beats.get(pod.name)
        # An older one may be of an earlier pod of that name, or of the program before a restart.
        if beat is None or beat.at < running or pod.name in snapshot.done:
            continue
        silent = (now - max(beat.at, since)).total_seconds()
        yield pod.name, beat.at, beat.within, max(0.0, beat.within - silent)


SILENT_MEMBERS: Final = Policy(report=report_silent_members, due=silence_time_left)
