"""The next steps from the existing pods of a job with a coordinator to those that it requests.

Replicas have fixed names: each reconcile creates the missing pods and deletes the surplus ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from datetime import datetime, timedelta
from typing import Final

from di_api.spec import Coordinated, JobSpec, Replica
from di_kube.resources import CONFIGMAPS, PODS, SERVICES
from di_operator.builders.access import Access
from di_operator.builders.kept_files import Checkpoints
from di_operator.builders.replica import (
    Member,
    ReplicaFrame,
    ReplicaPodRecipe,
    ReplicaServiceRecipe,
)
from di_operator.lifecycle.failure.refused_creates import until_retry
from di_operator.lifecycle.job_types.coordinator.replicas import replicas_of
from di_operator.lifecycle.job_types.coordinator.requests import coordinated_of
from di_operator.lifecycle.observed.plan import Plan, lost_nodes, outdated_pods
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import earliest
from di_operator.lifecycle.policies.deletion import delete, delete_pod, is_terminating
from di_operator.lifecycle.policies.kueue_admission import Quota
from di_operator.lifecycle.vocabulary.actions import Create, Delete
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.lifecycle.vocabulary.timestamps import parse_time

MEMORY: Final = timedelta(minutes=10)
"""How long a failure counts for the delay before a replica is created again."""
LONGEST_PAUSE: Final = 60.0
AGGREGATOR_RETRY: Final = 10.0
"""Seconds until a missing AggregatorConfig is read again."""


def plan_replicas(snapshot: Snapshot, now: datetime, settings: Settings) -> Plan:
    """Return the plan: surplus pods are deleted, missing ones created; see `plan_tasks`.

    ``waiting`` concerns the coordinator only, because no pod waits for the others.
    """
    counted = snapshot.status.counted
    ended = (*snapshot.failed, *snapshot.disrupted)
    outdated, waiting = outdated_pods(snapshot)
    quota = Quota.of(snapshot)
    dead = [pod for pod in ended if pod.uid in counted and not pod.terminating]
    own = [*snapshot.surplus, *outdated, *dead, *quota.evicted]
    namesakes = [pod for pod in snapshot.predecessors if not pod.terminating]
    overdue, patience = lost_nodes(snapshot, now)
    wanted = {slot.name for slot in snapshot.slots}
    services = [
        *snapshot.old_services,
        *(s for s in snapshot.services if s["metadata"]["name"] not in wanted),
    ]
    removals: list[Delete] = [
        *(delete_pod(pod) for pod in (*namesakes, *own)),
        *(delete_pod(pod, grace_period_seconds=0) for pod in overdue),
        *(delete(SERVICES, found) for found in services if not is_terminating(found)),
        *(delete(CONFIGMAPS, c) for c in snapshot.old_configmaps if not is_terminating(c)),
    ]
    # No wait for the cache: the coordinator requests others as soon as it has started.
    pause = until_retry(snapshot, now)
    slots, next_due = _due(snapshot, waiting, now) if pause <= 0 else ([], None)
    slots = quota.fitting(slots)
    if snapshot.lacks_template and pause <= 0:
        next_due = earliest(next_due, AGGREGATOR_RETRY)
    return Plan(
        removals=tuple(removals),
        creations=tuple(_creations(snapshot, slots, settings, now)) if pause <= 0 else (),
        created=len(slots),
        removed=len(own) + len(overdue),
        waiting=_waiting(snapshot, slots),
        lacks_template=snapshot.lacks_template,
        pause=pause,
        requeue_after=earliest(patience, next_due),
    )


def _due(snapshot: Snapshot, waiting: Set[str], now: datetime) -> tuple[list[Slot], float | None]:
    """Return the slots to fill now, and the seconds until the next one is due.

    ``waiting`` are those that wait for the outdated pods of their role to end.
    """
    blocked = {pod.name for pod in snapshot.predecessors}
    blocked.update(s["metadata"]["name"] for s in snapshot.old_services)
    blocked.update(s["metadata"]["name"] for s in snapshot.services if is_terminating(s))
    due: list[Slot] = []
    waits: list[float] = []
    for slot in (each for each in snapshot.missing if each.name not in waiting):
        pause = _pause(snapshot, slot, now)
        if pause > 0:
            waits.append(pause)
        elif slot.name not in blocked and slot.task.template:
            due.append(slot)
    return due, min(waits, default=None)


def _pause(snapshot: Snapshot, slot: Slot, now: datetime) -> float:
    """Return the seconds that a replica has to wait after repeated failures; none after the first.

    In most templates the kubelet restarts containers, with its own back-off. This delay is for
    templates without restarts, whose pods would otherwise be created as fast as they fail.
    """
    times = [
        time
        for loss in snapshot.status.losses
        if loss.get("pod") == slot.name and (time := parse_time(loss.get("time"))) is not None
        if now - time < MEMORY
    ]
    if len(times) < 2:
        return 0.0
    # A clock that was set back must not extend the delay.
    passed = max(0.0, (now - max(times)).total_seconds())
    return float(min(LONGEST_PAUSE, 2 ** (len(times) - 1))) - passed


def _waiting(snapshot: Snapshot, slots: list[Slot]) -> str | None:
    """Return why the coordinator has no pod after this step, None if it has one."""
    first = snapshot.slots[0]
    pod = snapshot.held.get(first.name)
    if pod in (*snapshot.live, *snapshot.succeeded) or first in slots:
        return None
    if pod is not None:
        return f"waiting for pod {pod.name} to end"
    return f"waiting until the name {first.name} is free"


def services_of(snapshot: Snapshot) -> Iterator[ReplicaServiceRecipe]:
    """Yield the recipes for the Services of existing pods."""
    if snapshot.spec is None:
        return
    coordinated = coordinated_of(snapshot.spec)
    replicas = replicas_of(snapshot.name, coordinated)
    present = {found["metadata"]["name"] for found in snapshot.services}
    for slot in snapshot.slots:
        if slot.name in present:
            member = _member(slot, replicas[slot.index], coordinated)
            yield ReplicaServiceRecipe(job=snapshot.job, member=member)


def _creations(
    snapshot: Snapshot, slots: list[Slot], settings: Settings, now: datetime
) -> Iterator[Create]:
    if snapshot.spec is None:
        return
    coordinated = coordinated_of(snapshot.spec)
    replicas = replicas_of(snapshot.name, coordinated)
    taken = {s["metadata"]["name"] for s in (*snapshot.services, *snapshot.old_services)}
    due = {slot.name for slot in slots}
    for slot in snapshot.slots:
        # The Service of an existing pod may have been deleted.
        wanted = slot.name in due or (slot.name in snapshot.held and slot.task.template)
        if wanted and slot.name not in taken:
            member = _member(slot, replicas[slot.index], coordinated)
            yield Create(
                resource=SERVICES, recipe=ReplicaServiceRecipe(job=snapshot.job, member=member)
            )
    frame = _frame(snapshot, snapshot.spec, settings)
    for slot in slots:
        member = _member(slot, replicas[slot.index], coordinated)
        record = snapshot.status.ledger.record(slot.task.name, slot.key)
        recipe = ReplicaPodRecipe(
            frame=frame, member=member, memory=record.memory, avoided=record.avoided(now)
        )
        yield Create(resource=PODS, recipe=recipe)


def sample_pods(snapshot: Snapshot, settings: Settings) -> Iterator[ReplicaPodRecipe]:
    """Yield one pod for each role with a template, for dry runs."""
    if snapshot.spec is None:
        return
    coordinated = coordinated_of(snapshot.spec)
    replicas = replicas_of(snapshot.name, coordinated)
    frame = _frame(snapshot, snapshot.spec, settings)
    sampled: set[str] = set()
    for slot in snapshot.slots:
        if slot.task.template and slot.task.name not in sampled:
            sampled.add(slot.task.name)
            member = _member(slot, replicas[slot.index], coordinated)
            yield ReplicaPodRecipe(frame=frame, member=member)


def _frame(snapshot: Snapshot, spec: JobSpec, settings: Settings) -> ReplicaFrame:
    return ReplicaFrame(
        job=snapshot.job,
        volumes=spec.volumes,
        priority_class_name=coordinated_of(spec).priority_class_name,
        priority_class=settings.priority_class(spec),
        server_url=settings.coordinated_server_url,
        # The clients of these pods only speak plain HTTP.
        access=Access(token_audience=settings.token_audience),
        attempts=snapshot.status.restart_attempts,
        checkpoints=Checkpoints.of(spec.checkpoint, snapshot.job),
        artifacts=spec.artifacts,
        code=spec.code,
        keeps_last_words=spec.failure_policy is not None,
    )


def _member(slot: Slot, replica: Replica, coordinated: Coordinated) -> Member:
    group = coordinated.group(replica.aggregator) if replica.aggregator else ()
    return Member(replica=replica, template=slot.task.template, group=group)
