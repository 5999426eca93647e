"""The transition of a job by its coordinator, and the counts of its other pods.

No failure is missed or counted twice: as for tasks, a reconcile that counts writes the UIDs of the
failed pods, and a later one deletes the pods.
"""

from __future__ import annotations

from datetime import datetime

from di_api.coordinated import coordinator_name
from di_api.phase import Phase
from di_api.spec import Role
from di_operator.lifecycle.failure.backoff_limit import PodSpec, count_failures
from di_operator.lifecycle.failure.losses import countable
from di_operator.lifecycle.failure.settling import settling
from di_operator.lifecycle.observed.pods import Pod, failure_text, first_failed
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.failure_rules import matching_rule
from di_operator.lifecycle.vocabulary.phases import may_follow
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.vocabulary.rules import Part, Seen, Then


def judge_coordinator(snapshot: Snapshot, now: datetime, pod_spec: PodSpec) -> Verdict | None:
    """Return the transition by the coordinator's pod, with the counted changes of the
    other pods.
    """
    pod = snapshot.held.get(snapshot.slots[0].name)
    if pod is not None and pod in snapshot.failed and not _has_rule(snapshot, pod):
        return _failed(pod)
    if verdict := _lost_coordinator(snapshot, pod, now):
        return verdict
    if pod in (*snapshot.ready, *snapshot.succeeded):
        # A coordinator that ended before it was observed passes Running too, as for tasks.
        if may_follow(snapshot.status.phase, Phase.RUNNING):
            return Verdict(phase=Phase.RUNNING, message="the coordinator is ready")
        if may_follow(snapshot.status.phase, Phase.SUCCEEDED) and pod in snapshot.succeeded:
            return Verdict(phase=Phase.SUCCEEDED, message="the coordinator succeeded")
    return _losses(snapshot, pod, now, pod_spec)


def end_of_frozen(snapshot: Snapshot) -> Verdict | None:
    """End a job with an unreadable spec when its coordinator has ended."""
    name = coordinator_name(snapshot.name)
    # Without a spec no pod has a slot.
    pod = next((pod for pod in snapshot.surplus if pod.name == name), None)
    phase = snapshot.status.phase
    if pod is not None and pod.phase == "Succeeded":
        return Verdict(phase=Phase.SUCCEEDED, message="the coordinator succeeded")
    if pod is None or pod.phase != "Failed":
        return None
    is_end = pod.answer(Part.COORDINATOR, phase) is Then.FAIL
    return _failed(pod) if is_end else None


def _lost_coordinator(snapshot: Snapshot, pod: Pod | None, now: datetime) -> Verdict | None:
    """Count a coordinator that was evicted, deleted, or vanished; it is created again."""
    if pod is None:
        lost = _is_counted(snapshot, Seen.POD_GONE, Part.COORDINATOR)
        lost = lost and settling(snapshot, now) <= 0
    else:
        deleted = pod in snapshot.terminating
        deleted = deleted and _is_counted(snapshot, Seen.POD_DELETED, Part.COORDINATOR)
        lost = (deleted or pod in snapshot.disrupted) and pod.uid not in snapshot.status.counted
    if not lost:
        return None
    ended = pod if pod is not None and not pod.terminating else None
    words = f" ({failure_text(ended)})" if ended is not None else ""
    rejected = ended is not None and not ended.has_begun
    return Verdict(
        phase=Phase.RESCHEDULING,
        reason=Reason.POD_REJECTED if rejected else None,
        message=f"the coordinator was lost{words}, another one takes its place",
        reschedules=1,
        counted=() if pod is None else (pod,),
        from_absence=pod is None,
    )


def _has_rule(snapshot: Snapshot, coordinator: Pod) -> bool:
    """Return whether the job's policy has a rule for the failed coordinator; otherwise its end is
    the job's.
    """
    policy = snapshot.spec.failure_policy if snapshot.spec is not None else None
    return matching_rule(policy, Role.COORDINATOR.value, coordinator.signs) is not None


def _losses(
    snapshot: Snapshot, coordinator: Pod | None, now: datetime, pod_spec: PodSpec
) -> Verdict | None:
    """Count failed and lost pods; a replica's failure does not change the phase of the job."""
    phase = snapshot.status.phase
    counts_deleted = _is_counted(snapshot, Seen.POD_DELETED, Part.REPLICA)
    deleted = snapshot.terminating if counts_deleted else ()
    others = (pod for pod in (*snapshot.disrupted, *deleted) if pod is not coordinator)
    ended = countable(snapshot, (*snapshot.failed, *others))
    have_failed = {pod.uid for pod in snapshot.failed}
    failed = [pod for pod in ended if pod.uid in have_failed]
    lost = [pod for pod in ended if pod.uid not in have_failed]
    if phase is None or not (failed or lost):
        return None
    found = count_failures(snapshot, failed, pod_spec=pod_spec, now=now, is_rest=False)
    if found.end is not None:
        return Verdict(
            phase=Phase.FAILED,
            reason=found.end.reason,
            message=found.end.message,
            counted=tuple(ended),
        )
    texts = []
    if lost:
        words = "" if lost[0].terminating else f": {failure_text(lost[0])}"
        texts.append(f"{count_of(len(lost), 'replica')} lost, {lost[0].name} first{words}")
    if failed:
        first = first_failed(failed)
        what = count_of(len(failed), "replica")
        texts.insert(0, f"{what} failed, {first.name} first: {failure_text(first)}")
    told = JobEvent(reason=Reason.REPLICAS_REPLACED, message="; ".join(texts))
    begins_anew = coordinator in failed or Role.COORDINATOR.value in found.restarted
    return Verdict(
        phase=Phase.RESTARTING if begins_anew else phase,
        message=told.message if begins_anew else None,
        restarts=1 if failed else 0,
        reschedules=1 if lost else 0,
        counted=(*failed, *lost),
        events=(told, *found.events),
        restarted=found.restarted,
        ledger=found.ledger,
    )


def _is_counted(snapshot: Snapshot, seen: Seen, part: Part) -> bool:
    return snapshot.rule(seen, part).then is Then.RESCHEDULE


def _failed(pod: Pod) -> Verdict:
    message = f"the coordinator failed: {failure_text(pod)}"
    return Verdict(phase=Phase.FAILED, message=message, counted=(pod,))
