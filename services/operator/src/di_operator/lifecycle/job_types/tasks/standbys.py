"""Pods that stand by: who takes whose place, and how many are kept ready.

| seen | what follows |
|---|---|
| the end of a replica's pod is counted, or it has none | one that is ready takes the place |
| the same, and none is ready | the place is for the replica's own pod again, which is made |
| who took a place has no rank yet | its labels and annotations say which it is |
| the job is up with all of its pods, and too few stand by | others are made |

Who has which place is in the status alone, before anything is deleted or told: all else follows
from it, so whoever decides next goes on from there. One that had a place never stands by again: its
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
"""Seconds after which one that failed by itself is made anew: a program that always fails would be
for ever, as fast as it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """What is done now about the pods that stand by."""

    due: tuple[Pod, ...] = ()
    """They are deleted."""
    wanted: tuple[tuple[Task, int], ...] = ()
    """Those to be made: of which task, and their numbers."""
    marks: tuple[Reclaim, ...] = ()
    """What is written to those that took a place: which one it is."""
    events: tuple[JobEvent, ...] = ()
    requeue_after: float | None = None


def with_stand_ins(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Verdict:
    """Add to a verdict that counts pods who takes their places, so that it is one write."""
    if verdict.phase.is_finished or not _has_standbys(snapshot):
        return verdict
    found = _next(snapshot, now, verdict)
    if found == snapshot.stand_ins:
        return verdict
    from_absence = verdict.from_absence or _is_from_absence(snapshot, found)
    return replace(verdict, stand_ins=found, from_absence=from_absence)


def judge_stand_ins(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Change who has which place, where pods that are counted or missing leave one; None: nobody
    does.

    Before pods are made: one is made for a place that nobody has.
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
    """What tells pods which place they took, and puts them behind the Service of their task."""
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
    """How those that took a place learn of it, and those that stand by come to be as many as the
    spec asks for.

    They are made last, while the job is up with all of its pods: it can do without them. Of those
    that failed by themselves the next one waits; one that has succeeded says that it is not needed.
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
    """Who has which place from now on; with a verdict, once that is written."""
    dead, after = snapshot.status.counted, snapshot
    # Of pods that are missing nobody knows whether they are only not seen yet, until it is counted.
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
        # No pod is made beside those that are to go first.
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
    """Whether a pod that is not seen loses its place to another."""
    return any(
        found.get(slot.task.name, {}).get(slot.index, _own_name(snapshot, slot)) != slot.name
        for slot in snapshot.missing
        if slot.task.standby
    )


def _choose(snapshot: Snapshot, slot: Slot, ready: list[Pod], now: datetime) -> str | None:
    """Take one that is as good as the pod that would be made, if there is one and it is time."""
    record = snapshot.status.ledger.record(slot.task.name, slot.key)
    if record.memory:
        # Those that stand by have the memory of the template.
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
    """Tasks that begin anew as a whole, some of whose pods are still those of before."""
    names = {pod.name for pod in snapshot.outdated}
    return frozenset(slot.task.name for slot in snapshot.slots if slot.name in names)


def _is_outdated(snapshot: Snapshot, task: Task, pod: Pod) -> bool:
    """Whether a pod that stands by was made before its task was restarted as a whole."""
    attempt = snapshot.status.restart_attempts.get(task.name, 0)
    return pod.attempt is not None and pod.attempt < attempt


def _patience(pod: Pod, now: datetime) -> float:
    """Seconds for which a pod that stands by is left as it is; 0 or less: it is made anew.

    One that the cluster has ended says nothing about its program.
    """
    if pod.phase != "Failed":
        return MADE_ANEW_AFTER
    ended = ended_at(pod)
    if ended is None:
        return 0.0
    # A clock that was set back must not stretch it.
    return MADE_ANEW_AFTER - max(0.0, (now - ended).total_seconds())


def _of_task(snapshot: Snapshot, task: Task) -> Sequence[tuple[int, Pod]]:
    """The pods that stand by for a task, by number."""
    found = [
        (number, pod)
        for pod in snapshot.standbys
        if (number := standby_number(snapshot.name, task.name, pod.name)) is not None
    ]
    return sorted(found, key=lambda each: each[0])


def _free(snapshot: Snapshot, task: Task, count: int) -> Iterator[int]:
    """The lowest numbers of so many that are to be made, whose names nobody has.

    No number is above those of all pods that the task may have: some have to wait for the names of
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
