"""Counts replicas that differ from the spec: resized tasks, and pods lost without a failure.

Each change is counted once in ``reschedules``, by what the status recorded: the replicas of each
task (sums of ``taskStatus``), the UIDs of the pods that were lost, and the phase.

A process group of fixed size is replaced as a whole when it loses a member or is resized; from
then on its other members are not counted.

Lost replicas of an elastic tier do not count as a reschedule and keep the phase. Their UIDs are
recorded so that each loss is handled once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from di_api.phase import Phase
from di_operator.lifecycle.failure.absent_nodes import absent_node_of
from di_operator.lifecycle.failure.backoff_limit import story_of
from di_operator.lifecycle.failure.first_cause import Following, following
from di_operator.lifecycle.failure.losses import countable, is_counting
from di_operator.lifecycle.failure.restart_delay import ignored_failures
from di_operator.lifecycle.failure.settling import settling
from di_operator.lifecycle.observed.pods import Pod, failure_text, first_failed, refusal_of
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, count_of, replaced
from di_operator.lifecycle.policies.kueue_admission import Quota
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.vocabulary.rules import Part, Seen, Then


def judge_losses(snapshot: Snapshot, now: datetime) -> tuple[Following, Verdict | None]:
    """Return the failed pods that only follow from a loss, and the verdict on what changed."""
    follow = following(snapshot, lost_pods(snapshot), gone_slots(snapshot, now), now)
    return follow, judge_change(snapshot, now)


def judge_change(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Count a changed number of replicas, or lost ones, and announce their replacement."""
    ended = countable(snapshot, (*lost_pods(snapshot), *snapshot.displaced))
    gone, elastic = gone_slots(snapshot, now), snapshot.elastic
    # The queue evicted them and will readmit them: nothing was lost, and no delay applies.
    evicted = Quota.of(snapshot).barred & elastic if elastic else frozenset[str]()
    ended = [pod for pod in ended if pod.name not in evicted]
    core = _change_of_core(
        snapshot,
        [pod for pod in ended if pod.name not in elastic],
        [slot for slot in gone if slot.is_core],
    )
    tiers = _loss_of_tiers(
        snapshot,
        [pod for pod in ended if pod.name in elastic],
        [slot for slot in gone if not slot.is_core],
    )
    if core is None or tiers is None:
        return core or tiers
    return replace(
        core,
        counted=(*core.counted, *tiers.counted),
        events=tiers.events,
        from_absence=core.from_absence or tiers.from_absence,
        regrouped=core.regrouped | tiers.regrouped,
        lost=core.lost | tiers.lost,
    )


def _change_of_core(
    snapshot: Snapshot, ended: Sequence[Pod], gone: Sequence[Slot]
) -> Verdict | None:
    before = snapshot.status
    wanted = snapshot.desired
    regrouped = _resized_groups(snapshot)
    resized = regrouped or (
        before.is_placed and before.desired is not None and before.desired != wanted
    )
    displaced = {pod.uid for pod in snapshot.displaced}
    moved = [pod for pod in ended if pod.uid in displaced]
    lost = [pod for pod in ended if pod.uid not in displaced]
    if not (resized or moved or lost or gone):
        return None
    reason = None
    names = (*(pod.name for pod in (*lost, *moved)), *(slot.name for slot in gone))
    restarted = regrouped | snapshot.fixed_groups(names)
    if resized:
        message = _resized(snapshot, before.desired or {})
    elif moved:
        message = f"{count_of(len(moved), 'pod')} to move, {_first_to_move(moved)} first"
    else:
        reason, message = _told_of_lost(snapshot, lost, gone)
    if restarted:
        message = f"{message}; {replaced(restarted)}"
    # A restart that has begun continues under its own phase.
    phase = Phase.RESTARTING if before.phase is Phase.RESTARTING else Phase.RESCHEDULING
    return Verdict(
        phase=phase,
        reason=reason,
        message=message,
        reschedules=1 if resized or gone or not is_counting(snapshot) else 0,
        counted=(*lost, *moved),
        from_absence=bool(gone),
        restarted=restarted,
        regrouped=snapshot.groups_of(names),
        lost=frozenset(slot.replica for slot in gone),
    )


def _told_of_lost(
    snapshot: Snapshot, lost: Sequence[Pod], gone: Sequence[Slot]
) -> tuple[Reason | None, str]:
    """Return the reason and message for lost pods, with the first one's cause. Pods that never ran
    come first.

    If all of them are failures that a rule ignores, the reason shows that.
    """
    ignored = ignored_failures(snapshot, lost)
    if ignored and len(ignored) == len(lost) and not gone:
        what = f"{count_of(len(ignored), 'pod')} failed, which a rule ignores"
        return None, f"{what}; {story_of(first_failed(ignored))}"
    rejected = [pod for pod in lost if not pod.terminating and not pod.has_begun]
    first = next(iter((*rejected, *lost)), None)
    name = first.name if first is not None else gone[0].name
    message = f"{count_of(len(lost) + len(gone), 'pod')} lost, {name} first"
    if (absent := absent_node_of(snapshot, name)) is not None:
        return Reason.NODE_NOT_FOUND, f"{message}: {absent}"
    if first is None or first.terminating:
        return None, message
    return Reason.POD_REJECTED if rejected else None, f"{message}: {failure_text(first)}"


def _resized_groups(snapshot: Snapshot) -> frozenset[str]:
    """Return the tasks whose process group has another size than the spec requests now."""
    asked, wanted = snapshot.status.desired, snapshot.desired
    if asked is None or asked == wanted:
        return frozenset()
    live = {pod.name for pod in snapshot.live}
    return frozenset(
        slot.task.name
        for slot in snapshot.slots
        if slot.name in live
        and asked.get(slot.task.name, 0) != wanted[slot.task.name]
        and snapshot.is_fixed_group(slot.task, is_resized=True)
    )


def _loss_of_tiers(
    snapshot: Snapshot, ended: Sequence[Pod], gone: Sequence[Slot]
) -> Verdict | None:
    """Record lost pods of elastic tiers, and the replicas of several pods that lost one.

    Vanished pods are created again like missing ones. But if a replica of several pods was up, its
    other pods must not meet the new ones, so the loss is recorded.
    """
    if not ended and not gone:
        return None
    up = snapshot.groups_of(pod.name for pod in snapshot.ready)
    torn = snapshot.groups_of(slot.name for slot in gone) & up
    names = {pod.name for pod in ended}
    lost = frozenset(slot.replica for slot in snapshot.slots if slot.name in names) | torn
    if not lost:
        return None
    first = next(slot.replica_name for slot in snapshot.slots if slot.replica in lost)
    message = f"{count_of(len(lost), 'replica')} of the elastic tier lost, {first} first"
    told = [JobEvent(reason=Reason.ELASTIC_REPLICAS_LOST, message=message)]
    if rejected := next((p for p in ended if p.phase == "Failed" and not p.has_begun), None):
        words = f"pod {rejected.name} of the elastic tier: {failure_text(rejected)}"
        told.append(JobEvent(reason=Reason.POD_REJECTED, message=words))
    return Verdict(
        phase=snapshot.status.phase or Phase.PENDING,
        counted=tuple(ended),
        events=tuple(told),
        from_absence=bool(torn),
        regrouped=snapshot.groups_of(names) | torn,
        lost=lost,
    )


def _first_to_move(moved: Sequence[Pod]) -> str:
    """Return the first moved pod, with the reason if the scheduler refused it on its node."""
    refused = ((pod, words) for pod in moved if (words := refusal_of(pod.raw)))
    pod, words = next(refused, (moved[0], ""))
    return (
        f"{pod.name} (the scheduler refused it on node {pod.node}: {words})" if words else pod.name
    )


def lost_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    """Return pods that the cluster ended, that were deleted, or whose failure a rule ignores."""
    deleted = snapshot.rule(Seen.POD_DELETED, Part.TASK).then is Then.RESCHEDULE
    if deleted:
        return (*snapshot.disrupted, *snapshot.terminating)
    names = {slot.name for slot in _torn(snapshot)}
    return (*snapshot.disrupted, *(pod for pod in snapshot.terminating if pod.name in names))


def gone_slots(snapshot: Snapshot, now: datetime) -> tuple[Slot, ...]:
    """Return the slots whose pods vanished between two reconciles.

    Every pod that the spec requested when the phase was written existed; slots added since never
    had one. The status has no list of the latter: they are the last of the slots with all pods
    missing.
    """
    counted = snapshot.rule(Seen.POD_GONE, Part.TASK).then is Then.RESCHEDULE
    if not snapshot.missing or settling(snapshot, now) > 0:
        return ()
    if not counted:
        missing = {slot.name for slot in snapshot.missing}
        return tuple(slot for slot in _torn(snapshot) if slot.name in missing)
    asked, wanted = snapshot.status.desired, snapshot.desired
    if asked is None:
        return snapshot.missing
    present = {slot.replica for slot in snapshot.slots if slot.name in snapshot.held}
    added = {task: count - asked.get(task, 0) for task, count in wanted.items()}
    gone: list[Slot] = []
    for slot in reversed(snapshot.missing):
        if added[slot.task.name] > 0 and slot.replica not in present:
            added[slot.task.name] -= 1
        else:
            gone.append(slot)
    return tuple(reversed(gone))


def _torn(snapshot: Snapshot) -> Iterator[Slot]:
    """Yield the members of fixed-size process groups of a waiting job that have no live pod while
    others of their group have one: a suspension leaves no live pods.
    """
    if not snapshot.status.groups or not (snapshot.terminating or snapshot.missing):
        return
    live = {pod.name for pod in snapshot.live}
    torn, groups = snapshot.fixed_groups(live), snapshot.status.groups
    for slot in snapshot.slots:
        if slot.task.name in torn and slot.name not in live:
            group = groups.get(slot.task.name)
            if group is not None and slot.index in group.members:
                yield slot


def _resized(snapshot: Snapshot, old: Mapping[str, int]) -> str:
    new, sizes = snapshot.desired, {task.name: task.pods_per_replica for task in snapshot.tasks}
    changes = [
        f"{task} from {old.get(task, 0) // sizes[task]} to {count // sizes[task]}"
        for task, count in new.items()
        if old.get(task, 0) != count
    ]
    return f"replicas changed: {', '.join(changes)}"
