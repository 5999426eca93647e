"""The reason and message of a phase while pods of the job cannot run: how many, and why.

This policy decides no transition, and a specific reason of the verdict takes precedence. A startup
step that every pod passes is reported only once it has taken long.
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
    """Give a verdict that keeps the phase the reason of the first blocked pod, or remove that
    reason once no pod is blocked.
    """
    if snapshot.spec is None or not _may_be_told(snapshot, verdict):
        return verdict
    if (blocked := describe_blocked(snapshot, now)) is not None:
        return replace(verdict, reason=blocked.reason, message=blocked.message)
    if verdict.message is None and _was_blocked(snapshot, verdict):
        total = count_of(len(snapshot.slots), "pod")
        return replace(verdict, message=f"{len(snapshot.ready)} of {total} ready")
    return verdict


def describe_blocked(snapshot: Snapshot, now: datetime) -> Blocker | None:
    """Return why the first blocked pod cannot run, with the number of blocked pods; None if no
    cause is known.

    The cause of a single pod takes precedence over that of its pod group.
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
    # A pod that the job needs comes first, and among these one whose status has a cause.
    pod, blocker, _ = min(named, key=lambda each: (each[0] in others, each[2]))
    total = count_of(len(snapshot.slots) + len(snapshot.standbys), "pod")
    which = f"{len(named)} of {total}"
    if blocker.lacks_capacity and snapshot.could_run():
        what = "wait for nodes that other pods have"
        blocker = replace(blocker, reason=Reason.WAITING_FOR_NODES, what=what)
    message = f"{which} {blocker.what}, {pod} first: {blocker.message}"
    return Blocker(reason=blocker.reason, message=message)


def blocked_time_left(snapshot: Snapshot, now: datetime) -> float | None:
    """Return the seconds until a stalled pod is reported; None without one."""
    lefts = (pod.stalled.left(now) for pod in _alive(snapshot) if pod.stalled is not None)
    return min((left for left in lefts if left > 0), default=None)


def _alive(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return the pods that run or are about to, standby pods included."""
    standbys = (pod for pod in snapshot.standbys if not pod.is_finished)
    return (*snapshot.live, *standbys)


def _was_blocked(snapshot: Snapshot, verdict: Verdict) -> bool:
    reason = snapshot.status.reason
    # While a job does not wait, only pods of an elastic tier and standby pods can be refused.
    others = (Reason.POD_GROUP_PENDING, Reason.WAITING_FOR_NODES)
    is_of_pods = reason in BLOCKED_REASONS or reason in others
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
