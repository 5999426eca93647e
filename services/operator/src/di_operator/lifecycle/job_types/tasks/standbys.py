"""Standby pods: their promotion to the places of lost pods, and the number kept ready.

| observed | result |
|---|---|
| a replica has no pod, or the end of its pod is counted | a ready standby pod is promoted |
| the same, and none is ready | the replica's own pod is created |
| a promoted pod has no rank yet | its labels and annotations get the place |
| the job is up with all of its pods, and standby pods are missing | they are created |

The status alone records the places, before anything is deleted or patched; everything else follows
from it, so a new leader continues from there. A promoted pod never stands by again, because its
program has begun to work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from di_api.names import LABEL_STANDBY, pod_name, standby_name
from di_api.phase import Phase
from di_api.spec import Task
from di_api.stand_ins import StandIns, standby_number
from di_operator.builders.pod import place_notes
from di_operator.lifecycle.failure.restart_delay import pauses_left
from di_operator.lifecycle.failure.settling import settling
from di_operator.lifecycle.observed.pods import Pod, ended_at, failure_text
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import Verdict, earliest
from di_operator.lifecycle.policies.drain import relabelled
from di_operator.lifecycle.policies.ranks import assign_ranks
from di_operator.lifecycle.vocabulary.actions import Reclaim
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason

MADE_ANEW_AFTER: Final = 60.0
"""Seconds before a standby pod that failed by itself is replaced: one that always fails would
otherwise be created as fast as it fails, for ever.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """The next steps for standby pods."""

    due: tuple[Pod, ...] = ()
    """Standby pods to delete."""
    wanted: tuple[tuple[Task, int], ...] = ()
    """Standby pods to create, as pairs of task and number."""
    marks: tuple[Reclaim, ...] = ()
    """Patches that write its place to a promoted pod."""
    events: tuple[JobEvent, ...] = ()
    requeue_after: float | None = None


def with_stand_ins(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Verdict:
    """Add the promotions to a verdict that counts pods, so that both are one write."""
    if verdict.phase.is_finished or not _has_standbys(snapshot):
        return verdict
    found = _next(snapshot, now, verdict)
    if found == snapshot.stand_ins:
        return verdict
    from_absence = verdict.from_absence or _is_from_absence(snapshot, found)
    return replace(verdict, stand_ins=found, from_absence=from_absence)


def judge_stand_ins(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Return the promotions for places of counted or missing pods; None without any.

    This comes before creations: a pod is only created for a place that no promoted pod serves.
    """
    if not (_has_standbys(snapshot) or snapshot.stand_ins):
        return None
    found = _next(snapshot, now)
    if found == snapshot.stand_ins:
        return None
    return Verdict(
        phase=snapshot.status.phase or Phase.PENDING,
        stand_ins=found,
        from_absence=_is_from_absence(snapshot, found),
    )


def _places_to_tell(snapshot: Snapshot) -> tuple[tuple[Reclaim, ...], tuple[JobEvent, ...]]:
    """Return the patches that write their place to promoted pods and put them behind the Service
    of their task.
    """
    new = [
        (slot, pod)
        for slot in snapshot.slots
        if slot.task.standby
        and (pod := snapshot.held.get(slot.name)) is not None
        and pod.rank is None
        and not (pod.terminating or pod.is_finished)
        and slot.name != _own_name(snapshot, slot)
    ]
    if not new:
        return (), ()
    ranks = assign_ranks(snapshot)
    marks = tuple(
        relabelled(
            pod,
            {**slot.labels, LABEL_STANDBY: None},
            place_notes(slot.index, ranks[slot.name]),
        )
        for slot, pod in new
    )
    first, others = new[0][0], len(new) - 1
    message = f"{first.name} has taken the place of {_own_name(snapshot, first)}"
    more = f" (and {others} more)" if others else ""
    return marks, (JobEvent(reason=Reason.STAND_IN, message=f"{message}{more}"),)


def reserve(snapshot: Snapshot, now: datetime, *, may_make: bool) -> Reserve:
    """Return the steps that write places to promoted pods and restore the number of standby pods.

    Standby pods are created last, while the job is up with all of its pods, because it can run
    without them. After one has failed by itself, the next waits. One that has succeeded is not
    replaced.
    """
    due: list[Pod] = []
    wanted: list[tuple[Task, int]] = []
    marks, taken = _places_to_tell(snapshot)
    events = [*taken]
    waits: list[float] = []
    for task in snapshot.tasks:
        if not task.standby:
            continue
        kept = 0
        for _, pod in _of_task(snapshot, task):
            left = _patience(pod, now)
            if kept >= task.standby or _is_outdated(snapshot, task, pod) or left <= 0:
                due.append(pod)
                if pod.phase == "Failed":
                    events.append(_failed(pod))
                continue
            kept += 1
            if pod.phase == "Failed":
                waits.append(left)
        if may_make:
            wanted.extend((task, number) for number in _free(snapshot, task, task.standby - kept))
    return Reserve(
        due=tuple(due),
        wanted=tuple(wanted),
        marks=marks,
        events=tuple(events),
        requeue_after=earliest(*waits),
    )


def _next(snapshot: Snapshot, now: datetime, verdict: Verdict | None = None) -> StandIns:
    """Return the places of promoted pods from now on; with a verdict, once it is written."""
    dead, after = snapshot.status.counted, snapshot
    # Missing pods may only be invisible so far, until they are counted as lost.
    is_counted = snapshot.status.is_replacing
    if verdict is not None:
        dead |= {pod.uid for pod in verdict.counted}
        is_counted = is_counted or bool(verdict.restarts or verdict.reschedules)
        if verdict.ledger is not None:
            after = replace(snapshot, status=replace(snapshot.status, ledger=verdict.ledger))
    is_seen = settling(snapshot, now) <= 0
    begun_anew = _begun_anew(snapshot) | (verdict.restarted if verdict is not None else frozenset())
    ready = {
        task.name: [] if task.name in begun_anew else _ready(snapshot, task)
        for task in snapshot.tasks
        if task.standby
    }
    places = defaultdict[str, dict[int, str]](dict)
    paused = pauses_left(after, now)
    for slot in snapshot.slots:
        if not slot.task.standby:
            continue
        pod = snapshot.held.get(slot.name)
        # No pod is created beside those that have to go first.
        stays = pod is not None and (pod.uid not in dead or slot.task.name in begun_anew)
        name = None
        if slot.name in snapshot.done or stays or (pod is None and not is_seen):
            name = slot.name
        elif (pod is not None or is_counted) and slot.name not in paused:
            name = _choose(after, slot, ready[slot.task.name], now)
        if name is not None and name != _own_name(snapshot, slot):
            places[slot.task.name][slot.index] = name
    return places


def _is_from_absence(snapshot: Snapshot, found: StandIns) -> bool:
    """Return whether a place changes because its pod was not found."""
    return any(
        found.get(slot.task.name, {}).get(slot.index, _own_name(snapshot, slot)) != slot.name
        for slot in snapshot.missing
        if slot.task.standby
    )


def _choose(snapshot: Snapshot, slot: Slot, ready: list[Pod], now: datetime) -> str | None:
    """Return a standby pod that can replace the slot's pod, if there is one and its time
    has come.
    """
    record = snapshot.status.ledger.record(slot.task.name, slot.key)
    if record.memory:
        # Standby pods have the memory of the template, not the grown one.
        return None
    avoided = record.avoided(now)
    found = next((pod for pod in ready if pod.node not in avoided), None)
    if found is None:
        return None
    ready.remove(found)
    return found.name


def _ready(snapshot: Snapshot, task: Task) -> list[Pod]:
    return [
        pod
        for _, pod in _of_task(snapshot, task)
        if pod.ready and pod.phase == "Running" and not pod.goes_on
        if not _is_outdated(snapshot, task, pod)
    ]


def _begun_anew(snapshot: Snapshot) -> frozenset[str]:
    """Return the tasks that restart as a whole and still have earlier pods."""
    names = {pod.name for pod in snapshot.outdated}
    return frozenset(slot.task.name for slot in snapshot.slots if slot.name in names)


def _is_outdated(snapshot: Snapshot, task: Task, pod: Pod) -> bool:
    """Return whether a standby pod predates its task's last restart as a whole."""
    attempt = snapshot.status.restart_attempts.get(task.name, 0)
    return pod.attempt is not None and pod.attempt < attempt


def _patience(pod: Pod, now: datetime) -> float:
    """Return the seconds for which a standby pod is left as it is; 0 or less: it is replaced.

    A pod that the cluster ended is replaced at once, since its program did not fail.
    """
    if pod.phase != "Failed":
        return MADE_ANEW_AFTER
    ended = ended_at(pod)
    if ended is None:
        return 0.0
    # A clock that was set back must not extend the time.
    return MADE_ANEW_AFTER - max(0.0, (now - ended).total_seconds())


def _of_task(snapshot: Snapshot, task: Task) -> Sequence[tuple[int, Pod]]:
    """Return the standby pods of a task, by number."""
    found = [
        (number, pod)
        for pod in snapshot.standbys
        if (number := standby_number(snapshot.name, task.name, pod.name)) is not None
    ]
    return sorted(found, key=lambda each: each[0])


def _free(snapshot: Snapshot, task: Task, count: int) -> Iterator[int]:
    """Yield the lowest free numbers for that many new standby pods.

    No number exceeds the total of pods that the task may have: some have to wait for the names of
    pods that end.
    """
    taken = {pod.name for pod in (*snapshot.pods, *snapshot.predecessors)}
    taken.update(slot.name for slot in snapshot.slots)
    for number in range(task.replicas + task.standby):
        if count <= 0:
            return
        if standby_name(snapshot.name, task.name, number) not in taken:
            yield number
            count -= 1


def _failed(pod: Pod) -> JobEvent:
    message = f"pod {pod.name}, which stands by, failed: {failure_text(pod)}"
    return JobEvent(reason=Reason.STANDBY_FAILED, message=message)


def _own_name(snapshot: Snapshot, slot: Slot) -> str:
    return pod_name(snapshot.name, slot.task.name, slot.index)


def _has_standbys(snapshot: Snapshot) -> bool:
    return any(task.standby for task in snapshot.tasks)
