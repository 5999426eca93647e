"""A job whose pods do not run says which, how many, and why: its phase has that reason meanwhile.

It decides nothing about the job; a reason of its own that a verdict gives goes first. A step that
every pod goes through is reported when it has lasted.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from di_operator.lifecycle.failure.absent_nodes import on_absent_nodes
from di_operator.lifecycle.observed.blockers import (
    BLOCKED_REASONS,
    Blocker,
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
    named = [
        (pod.name, blocker, pod.blocker is None) for pod, blocker in found if blocker is not None
    ] or [(name, blocker, False) for name, blocker in on_absent_nodes(snapshot, now)]
    if all(is_on_its_way for *_, is_on_its_way in named) and not snapshot.is_bound:
        group = group_blocker(snapshot.pod_group)
        if group is not None or not named:
            return group
    if not named:
        return None
    others = snapshot.elastic | {pod.name for pod in snapshot.standbys}
    # One that the job needs goes first, and of those one that shows what is wrong.
    pod, blocker, _ = min(named, key=lambda each: (each[0] in others, each[2]))
    total = count_of(len(snapshot.slots) + len(snapshot.standbys), "pod")
    which = f"{len(named)} of {total}"
    message = f"{which} {blocker.what}, {pod} first: {blocker.message}"
    return Blocker(reason=blocker.reason, message=message)


def blocked_time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Seconds until a pod that shows nothing new is to be told of; None: there is none."""
    lefts = (pod.stalled.left(now) for pod in _alive(snapshot) if pod.stalled is not None)
    return min((left for left in lefts if left > 0), default=None)


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
    if pod.blocker is not None or pod.stalled is None or pod.stalled.left(now) > 0:
        return pod.blocker
    return pod.stalled.blocker


def _may_be_told(snapshot: Snapshot, verdict: Verdict) -> bool:
    counts = verdict.restarts or verdict.reschedules
    return (
        verdict.phase is snapshot.status.phase
        and verdict.reason in (None, OF_PHASES[verdict.phase])
        and not counts
    )


BLOCKED_PODS: Final = Policy(amend=tell_blocked, due=blocked_time_left)
