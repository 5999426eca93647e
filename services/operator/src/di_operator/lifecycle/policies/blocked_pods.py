"""A job whose pods do not run says which, how many, and why: its phase has that reason meanwhile.

It decides nothing about the job; a reason of its own that a verdict gives goes first. What a node
does not make ready is told of after a while: every pod begins with it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from di_operator.lifecycle.observed.blockers import (
    BLOCKED_REASONS,
    PREPARING_SECONDS,
    Blocker,
    unprepared_blocker,
)
from di_operator.lifecycle.observed.pod_group_status import group_blocker
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.policy import Policy
from di_operator.lifecycle.vocabulary.reasons import OF_PHASES, Reason
from di_operator.lifecycle.vocabulary.rules import WAITING


def tell_blocked(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Verdict:
    """Give a verdict that leaves the phase as it is the reason of the first pod that is kept from
    running; or take that reason back once none is."""
    if snapshot.spec is None or not _may_be_told(snapshot, verdict):
        return verdict
    if (blocked := describe_blocked(snapshot, now)) is not None:
        return replace(verdict, reason=blocked.reason, message=blocked.message)
    if verdict.message is None and _was_blocked(snapshot, verdict):
        total = count_of(len(snapshot.slots), "pod")
        return replace(verdict, message=f"{len(snapshot.ready)} of {total} ready")
    return verdict


def describe_blocked(snapshot: Snapshot, now: datetime) -> Blocker | None:
    """What keeps the first pod from running, and how many are kept; None: nothing that is known.

    What is said of a single pod says more than what is said of the group that it waits with.
    """
    found = ((pod, _blocker(pod, now)) for pod in _alive(snapshot))
    blocked = [(pod, blocker) for pod, blocker in found if blocker is not None]
    if not blocked:
        return None if snapshot.is_bound else group_blocker(snapshot.pod_group)
    others = snapshot.elastic | {pod.name for pod in snapshot.standbys}
    # One that the job needs goes first.
    pod, blocker = min(blocked, key=lambda each: each[0].name in others)
    total = count_of(len(snapshot.slots) + len(snapshot.standbys), "pod")
    which = f"{len(blocked)} of {total}"
    message = f"{which} cannot run, {pod.name} first: {blocker.message}"
    return Blocker(reason=blocker.reason, message=message)


def blocked_time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Seconds until a pod that shows nothing new is to be told of; None: there is none."""
    lefts = (_preparing_left(pod, now) for pod in _alive(snapshot))
    return min((left for left in lefts if left is not None and left > 0), default=None)


def _alive(snapshot: Snapshot) -> tuple[Pod, ...]:
    """The pods that run, or are to run, those that stand by too."""
    standbys = (pod for pod in snapshot.standbys if not pod.is_finished)
    return (*snapshot.live, *standbys)


def _was_blocked(snapshot: Snapshot, verdict: Verdict) -> bool:
    reason = snapshot.status.reason
    # A job that does not wait is refused only what is of an elastic tier, or stands by.
    is_of_pods = reason in BLOCKED_REASONS or reason == Reason.POD_GROUP_PENDING
    return is_of_pods or (reason in WAITING and verdict.phase.is_up)


def _blocker(pod: Pod, now: datetime) -> Blocker | None:
    since, left = pod.unprepared_since, _preparing_left(pod, now)
    if pod.blocker is not None or since is None or left is None or left > 0:
        return pod.blocker
    return unprepared_blocker(pod.name, since)


def _preparing_left(pod: Pod, now: datetime) -> float | None:
    """Seconds for which a node may go on to make a pod's volumes and network ready."""
    if pod.unprepared_since is None:
        return None
    return PREPARING_SECONDS - (now - pod.unprepared_since).total_seconds()


def _may_be_told(snapshot: Snapshot, verdict: Verdict) -> bool:
    counts = verdict.restarts or verdict.reschedules
    return (
        verdict.phase is snapshot.status.phase
        and verdict.reason in (None, OF_PHASES[verdict.phase])
        and not counts
    )


BLOCKED_PODS: Final = Policy(amend=tell_blocked, due=blocked_time_left)
