"""Jobs with a coordinator: its pod alone says where the job stands, all others come and go.

Replicas have fixed names, so whatever is missing is made and whatever is too many is deleted,
as often as one looks. Only a failure must not be lost sight of or counted twice: as for tasks,
a reconcile that counts writes the UIDs of the failed pods, and a later one deletes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from di_api.coordinated import Coordinated
from di_api.model import Phase
from di_operator.builders.replica import (
    Member,
    ReplicaFrame,
    ReplicaPodRecipe,
    ReplicaServiceRecipe,
)
from di_operator.lifecycle.actions import Action, CreatePod, CreateService
from di_operator.lifecycle.converge import Plan, lost_nodes
from di_operator.lifecycle.decision import JobEvent, Settings
from di_operator.lifecycle.deletion import (
    delete_configmap,
    delete_pod,
    delete_service,
    is_terminating,
)
from di_operator.lifecycle.pods import Pod, failure_text, first_failed
from di_operator.lifecycle.scale import had_all
from di_operator.lifecycle.snapshot import Slot, Snapshot
from di_operator.lifecycle.timestamps import parse_time
from di_operator.lifecycle.verdict import Verdict, count_of, countable, earliest

MEMORY: Final = timedelta(minutes=10)
"""How long a failure counts towards the pause before a replica is made anew."""
LONGEST_PAUSE: Final = 60.0
AGGREGATOR_RETRY: Final = 10.0
"""Seconds until a missing AggregatorConfig is looked for again."""

_STARTED = (Phase.STARTING, Phase.RUNNING)


def judge_coordinator(snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Move a job on by its coordinator, and count what happened to the others."""
    pod = snapshot.held.get(snapshot.slots[0].name)
    if pod is not None and pod in snapshot.failed:
        message = f"the coordinator failed: {failure_text(pod)}"
        return Verdict(phase=Phase.FAILED, message=message, counted=(pod,))
    if verdict := _lost_coordinator(snapshot, pod, now):
        return verdict
    if pod in (*snapshot.ready, *snapshot.succeeded):
        # Running comes first also for one that ended before it was seen, as for tasks.
        if snapshot.status.phase in (Phase.STARTING, None):
            return Verdict(phase=Phase.RUNNING, message="the coordinator is ready")
        if snapshot.status.phase is Phase.RUNNING and pod in snapshot.succeeded:
            return Verdict(phase=Phase.SUCCEEDED, message="the coordinator succeeded")
    return _losses_of_others(snapshot, pod)


def plan_replicas(
    snapshot: Snapshot, now: datetime, settings: Settings, *, may_create: bool = True
) -> Plan:
    """Remove what is not asked for any more, make what is; see `converge.plan`.

    ``waiting`` speaks of the coordinator only: the others keep nobody waiting.
    """
    counted = snapshot.status.counted
    ended = (*snapshot.failed, *snapshot.disrupted)
    own = [*snapshot.surplus, *(pod for pod in ended if pod.uid in counted)]
    namesakes = [pod for pod in snapshot.predecessors if not pod.terminating]
    overdue, patience = lost_nodes(snapshot, now)
    wanted = {slot.name for slot in snapshot.slots}
    services = [
        *snapshot.old_services,
        *(s for s in snapshot.services if s["metadata"]["name"] not in wanted),
    ]
    removals: list[Action] = [
        *(delete_pod(pod) for pod in (*namesakes, *own)),
        *(delete_pod(pod, grace_period_seconds=0) for pod in overdue),
        *(delete_service(found) for found in services if not is_terminating(found)),
        *(delete_configmap(c) for c in snapshot.old_configmaps if not is_terminating(c)),
    ]
    slots, pause = _due(snapshot, now) if may_create else ([], None)
    return Plan(
        removals=tuple(removals),
        creations=tuple(_creations(snapshot, slots, settings)) if may_create else (),
        created=len(slots),
        removed=len(own) + len(overdue),
        waiting=_waiting(snapshot, slots),
        requeue_after=earliest(patience, pause),
    )


def lacks_aggregator(snapshot: Snapshot) -> bool:
    """Whether an aggregator or its Service cannot be made for want of the template."""
    if all(slot.task.template for slot in snapshot.slots):
        return False
    services = {service["metadata"]["name"] for service in snapshot.services}
    return any(
        not slot.task.template
        for slot in snapshot.slots
        if slot.name not in snapshot.held or slot.name not in services
    )


def _lost_coordinator(snapshot: Snapshot, pod: Pod | None, now: datetime) -> Verdict | None:
    """Count a coordinator that was evicted, deleted, or vanished; it is made anew."""
    phase = snapshot.status.phase
    if pod is None:
        lost = had_all(snapshot, now)
    else:
        deleted = pod in snapshot.terminating and phase in _STARTED
        lost = (deleted or pod in snapshot.disrupted) and pod.uid not in snapshot.status.counted
    if not lost:
        return None
    return Verdict(
        phase=Phase.RESCHEDULING,
        message="the coordinator was lost, another one takes its place",
        reschedules=1,
        counted=() if pod is None else (pod,),
        from_absence=pod is None,
    )


def _losses_of_others(snapshot: Snapshot, coordinator: Pod | None) -> Verdict | None:
    """Count replicas that failed or were lost; the phase of the job stays what it is."""
    phase = snapshot.status.phase
    deleted = snapshot.terminating if phase in _STARTED else ()
    others = (*snapshot.failed, *snapshot.disrupted, *deleted)
    ended = countable(snapshot, (pod for pod in others if pod is not coordinator))
    have_failed = {pod.uid for pod in snapshot.failed}
    failed = [pod for pod in ended if pod.uid in have_failed]
    lost = [pod for pod in ended if pod.uid not in have_failed]
    if phase is None or not (failed or lost):
        return None
    texts = [f"{count_of(len(lost), 'replica')} lost, {lost[0].name} first"] if lost else []
    if failed:
        first = first_failed(failed)
        what = count_of(len(failed), "replica")
        texts.insert(0, f"{what} failed, {first.name} first: {failure_text(first)}")
    return Verdict(
        phase=phase,
        restarts=1 if failed else 0,
        reschedules=1 if lost else 0,
        counted=(*failed, *lost),
        events=(JobEvent(type="Warning", reason="ReplicasReplaced", message="; ".join(texts)),),
    )


def _due(snapshot: Snapshot, now: datetime) -> tuple[list[Slot], float | None]:
    """Return the slots to be filled now, and the seconds until the next one is due."""
    blocked = {pod.name for pod in snapshot.predecessors}
    blocked.update(s["metadata"]["name"] for s in snapshot.old_services)
    blocked.update(s["metadata"]["name"] for s in snapshot.services if is_terminating(s))
    due: list[Slot] = []
    waits: list[float] = []
    for slot in snapshot.missing:
        pause = _pause(snapshot, slot, now)
        if pause > 0:
            waits.append(pause)
        elif slot.name not in blocked and slot.task.template:
            due.append(slot)
    if lacks_aggregator(snapshot):
        waits.append(AGGREGATOR_RETRY)
    return due, min(waits, default=None)


def _pause(snapshot: Snapshot, slot: Slot, now: datetime) -> float:
    """Seconds a replica must wait that failed again and again; none after the first time.

    Containers of most templates are restarted by the kubelet, which has a back-off of its own.
    This is for those that never are, whose pods would otherwise be made as fast as they fail.
    """
    times = [
        time
        for loss in snapshot.status.losses
        if loss.get("pod") == slot.name and (time := parse_time(loss.get("time"))) is not None
        if now - time < MEMORY
    ]
    if len(times) < 2:
        return 0.0
    # A clock that was set back must not stretch the pause.
    passed = max(0.0, (now - max(times)).total_seconds())
    return float(min(LONGEST_PAUSE, 2 ** (len(times) - 1))) - passed


def _waiting(snapshot: Snapshot, slots: list[Slot]) -> str | None:
    """Say why the coordinator has no pod after this step, None if it has."""
    first = snapshot.slots[0]
    pod = snapshot.held.get(first.name)
    if pod in (*snapshot.live, *snapshot.succeeded) or first in slots:
        return None
    if pod is not None:
        return f"waiting for pod {pod.name} to end"
    return f"waiting until the name {first.name} is free"


def _creations(snapshot: Snapshot, slots: list[Slot], settings: Settings) -> Iterator[Action]:
    spec = snapshot.spec
    if spec is None or spec.coordinated is None:
        return
    taken = {s["metadata"]["name"] for s in (*snapshot.services, *snapshot.old_services)}
    due = {slot.name for slot in slots}
    for slot in snapshot.slots:
        # Also for a pod whose Service somebody deleted.
        wanted = slot.name in due or (slot.name in snapshot.held and slot.task.template)
        if wanted and slot.name not in taken:
            member = _member(spec.coordinated, slot)
            yield CreateService(recipe=ReplicaServiceRecipe(job=snapshot.job, member=member))
    frame = ReplicaFrame(
        job=snapshot.job,
        volumes=spec.volumes,
        priority_class_name=spec.coordinated.priority_class_name,
        server_url=settings.coordinated_server_url,
        token_audience=settings.token_audience,
    )
    for slot in slots:
        member = _member(spec.coordinated, slot)
        yield CreatePod(recipe=ReplicaPodRecipe(frame=frame, member=member))


def _member(coordinated: Coordinated, slot: Slot) -> Member:
    replica = slot.replica
    assert replica is not None
    group = coordinated.group(replica.aggregator) if replica.aggregator else ()
    return Member(replica=replica, template=slot.task.template, group=group)
