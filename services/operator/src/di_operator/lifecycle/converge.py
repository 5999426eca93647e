"""The way from the pods there are to those the spec asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from di_api.job_names import MAX_NODE_LISTS
from di_api.names import NODES_FILE_THRESHOLD
from di_operator.builders.configmap import configmap_body, is_as_written
from di_operator.builders.nodes import NodeLists
from di_operator.builders.pod import PodFrame, PodRecipe
from di_operator.builders.service import ServiceRecipe
from di_operator.lifecycle.actions import (
    Action,
    CreateConfigMap,
    CreatePod,
    CreateService,
    ReplaceConfigMap,
)
from di_operator.lifecycle.decision import Settings
from di_operator.lifecycle.deletion import (
    delete_configmap,
    delete_pod,
    delete_service,
    is_terminating,
)
from di_operator.lifecycle.dependencies import waiting_tasks
from di_operator.lifecycle.pods import Pod
from di_operator.lifecycle.ranks import assign_ranks, node_lists
from di_operator.lifecycle.snapshot import Slot, Snapshot
from di_operator.lifecycle.verdict import count_of, earliest

NODE_LOST_PATIENCE = 30.0
"""Seconds past a pod's grace period before a pod on a lost node is deleted without its kubelet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The next steps, and how far they reach."""

    removals: tuple[Action, ...]
    creations: tuple[Action, ...]
    created: int
    """Pods among the creations."""
    removed: int
    """Pods of this job among the removals."""
    waiting: str | None
    """Why some replica will have no pod after the creations; None if all will have one."""
    obstacle: str | None = None
    """Why no pod can be made until the spec is changed; None if nothing is in the way."""
    requeue_after: float | None


def plan(snapshot: Snapshot, now: datetime, settings: Settings, *, may_create: bool = True) -> Plan:
    """Remove what is not wanted, create what is missing and may be created now.

    Removed are objects of an earlier job of the same name, surplus replicas (the highest indexes
    of a task that was scaled down), and failed or lost pods whose loss the status has counted.
    A name is used again only when its pod is gone. Without ``may_create`` only removals are
    planned.
    """
    counted = snapshot.status.counted
    ended = (*snapshot.failed, *snapshot.disrupted, *snapshot.displaced)
    dead = [pod for pod in ended if pod.uid in counted]
    own = [*snapshot.surplus, *dead]
    namesakes = [pod for pod in snapshot.predecessors if not pod.terminating]
    overdue, patience = lost_nodes(snapshot, now)
    removals: list[Action] = [
        *(delete_service(found) for found in snapshot.old_services if not is_terminating(found)),
        *(delete_configmap(c) for c in snapshot.old_configmaps if not is_terminating(c)),
        *(delete_pod(pod) for pod in (*namesakes, *own)),
        *(delete_pod(pod, grace_period_seconds=0) for pod in overdue),
    ]
    slots, waiting = _fillable(snapshot) if may_create else ([], None)
    creations, obstacle = _creations(snapshot, slots, settings) if may_create else ([], None)
    return Plan(
        removals=tuple(removals),
        creations=tuple(creations),
        created=0 if obstacle else len(slots),
        removed=len(own) + len(overdue),
        waiting=waiting,
        obstacle=obstacle,
        requeue_after=patience,
    )


def _fillable(snapshot: Snapshot) -> tuple[list[Slot], str | None]:
    """Return the slots that may get a pod now, and why others may not."""
    leftovers = [*snapshot.old_services, *snapshot.old_configmaps]
    if leftovers or (snapshot.service is not None and is_terminating(snapshot.service)):
        return [], "waiting for the Service of an earlier job of the same name to be gone"
    held_by_namesakes = {pod.name for pod in snapshot.predecessors}
    waits = waiting_tasks(snapshot)
    slots: list[Slot] = []
    reasons: list[str] = []
    for slot in snapshot.missing:
        if slot.name in held_by_namesakes:
            reasons.append(f"waiting for pod {slot.name} of an earlier job to be gone")
        elif slot.task.name in waits:
            reasons.append(f"task {slot.task.name} waits for task {waits[slot.task.name]}")
        else:
            slots.append(slot)
    ending = [
        *(*snapshot.terminating, *snapshot.failed),
        *(*snapshot.disrupted, *snapshot.displaced),
    ]
    reasons.extend(f"waiting for pod {pod.name} to end" for pod in ending)
    if not reasons:
        return slots, None
    others = len(set(reasons)) - 1
    return slots, f"{reasons[0]} (and {count_of(others, 'more reason')})" if others else reasons[0]


def _creations(
    snapshot: Snapshot, slots: list[Slot], settings: Settings
) -> tuple[list[Action], str | None]:
    """Return what is to be created, and why no pods are among it although they are missing."""
    if snapshot.spec is None or snapshot.old_services or snapshot.old_configmaps:
        return [], None
    actions: list[Action] = []
    if snapshot.service is None:
        actions.append(CreateService(recipe=ServiceRecipe(job=snapshot.job)))
    by_file = len(snapshot.slots) > NODES_FILE_THRESHOLD
    if not slots and not _lists_are_spoilt(snapshot, by_file=by_file):
        return actions, None
    ranks = assign_ranks(snapshot)
    nodes = node_lists(snapshot, ranks, settings.service_domain)
    if (by_file or snapshot.configmap is not None) and (size := nodes.size) > MAX_NODE_LISTS:
        # Pods that exist keep the lists they have; new ones could not start without theirs.
        return actions, (
            f"the DNS names of {count_of(len(snapshot.slots), 'pod')} take {size} bytes of the "
            f"{MAX_NODE_LISTS} that node lists may have; lower the replicas of the job's tasks"
        )
    actions.extend(_lists(snapshot, nodes, by_file=by_file))
    frame = PodFrame(
        job=snapshot.job,
        replicas=Counter(slot.task.name for slot in snapshot.slots),
        volumes=snapshot.spec.volumes,
        nodes=nodes,
        by_file=by_file,
        server_url=settings.server_url,
        token_audience=settings.token_audience,
    )
    for slot in slots:
        rank = ranks[slot.name]
        recipe = PodRecipe(frame=frame, task=slot.task, index=slot.index, rank=rank, node=slot.node)
        actions.append(CreatePod(recipe=recipe))
    return actions, None


def _lists_are_spoilt(snapshot: Snapshot, *, by_file: bool) -> bool:
    """Whether somebody deleted or edited the file that running pods read."""
    if snapshot.configmap is None:
        return by_file
    return not is_as_written(snapshot.configmap)


def _lists(snapshot: Snapshot, nodes: NodeLists, *, by_file: bool) -> Iterator[Action]:
    """Bring the file up to date before a pod starts that reads it."""
    present = snapshot.configmap
    if present is None:
        if by_file:
            yield CreateConfigMap(body=configmap_body(snapshot.job, nodes))
        return
    # It stays when a job shrinks below the threshold: pods that mount it are still there.
    data: Mapping[str, str] = present.get("data") or {}
    if data != nodes.files() or not is_as_written(present):
        version = present["metadata"]["resourceVersion"]
        body = configmap_body(snapshot.job, nodes, resource_version=version)
        yield ReplaceConfigMap(body=body)


def lost_nodes(snapshot: Snapshot, now: datetime) -> tuple[list[Pod], float | None]:
    """Return pods that only their lost node could end, and when the next one's time is up.

    The kubelet of a lost node cannot confirm the end of a pod, and its name would stay taken.
    Should the node come back, its kubelet ends the pod it still runs, for the API has none.
    """
    stuck = [
        (pod, NODE_LOST_PATIENCE - (now - pod.deleted_at).total_seconds())
        for pod in (*snapshot.terminating, *snapshot.leaving)
        if pod.node_is_lost and pod.deleted_at is not None
    ]
    overdue = [pod for pod, left in stuck if left <= 0]
    return overdue, earliest(*(left for _, left in stuck if left > 0))
