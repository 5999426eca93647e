"""A job whose pods do not run says which, how many, and why: its phase has that reason meanwhile.

It decides nothing about the job; a reason of its own that a verdict gives goes first.
"""

from __future__ import annotations

from dataclasses import replace

from di_operator.lifecycle.blockers import BLOCKED_REASONS, Blocker
from di_operator.lifecycle.reasons import OF_PHASES
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.verdict import Verdict, count_of


def tell_blocked(snapshot: Snapshot, verdict: Verdict) -> Verdict:
    """Give a verdict that leaves the phase as it is the reason of the first pod that is kept from
    running; or take that reason back once none is."""
    if snapshot.spec is None or not _may_be_told(snapshot, verdict):
        return verdict
    if (blocked := describe_blocked(snapshot)) is not None:
        return replace(verdict, reason=blocked.reason, message=blocked.message)
    if verdict.message is None and snapshot.status.reason in BLOCKED_REASONS:
        total = count_of(len(snapshot.slots), "pod")
        return replace(verdict, message=f"{len(snapshot.ready)} of {total} ready")
    return verdict


def describe_blocked(snapshot: Snapshot) -> Blocker | None:
    """What keeps the first pod from running, and how many are kept; None: nothing that is known."""
    blocked = [pod for pod in snapshot.live if pod.blocker is not None]
    if not blocked or (blocker := blocked[0].blocker) is None:
        return None
    which = f"{len(blocked)} of {count_of(len(snapshot.slots), 'pod')}"
    message = f"{which} cannot run, {blocked[0].name} first: {blocker.message}"
    return Blocker(reason=blocker.reason, message=message)


def _may_be_told(snapshot: Snapshot, verdict: Verdict) -> bool:
    counts = verdict.restarts or verdict.reschedules
    return (
        verdict.phase is snapshot.status.phase
        and verdict.reason in (None, OF_PHASES[verdict.phase])
        and not counts
    )
