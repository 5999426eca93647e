"""The next steps from the existing pods of a job with tasks to those that its spec requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime

from di_api.names import ANNOTATION_JOB_SECRET, NODES_FILE_THRESHOLD
from di_api.spec import JobSpec, Task
from di_api.validation import MAX_NODE_LISTS
from di_kube.resources import CONFIGMAPS, PODS, SERVICES
from di_operator.builders.access import Access, job_secret
from di_operator.builders.configmap import (
    ConfigMapRecipe,
    has_files,
    has_groups,
    is_as_written,
)
from di_operator.builders.kept_files import Checkpoints
from di_operator.builders.nodes import NodeLists
from di_operator.builders.pod import PodFrame, PodRecipe
from di_operator.builders.ports import JobPorts
from di_operator.builders.task_service import service_environment
from di_operator.builders.topology import Domains
from di_operator.lifecycle.failure.refused_creates import until_retry
from di_operator.lifecycle.failure.restart_delay import pauses_left
from di_operator.lifecycle.failure.settling import settling
from di_operator.lifecycle.job_types.tasks.creation_order import (
    LAST_STAGE,
    creation_stage,
    in_creation_order,
)
from di_operator.lifecycle.job_types.tasks.services import missing_services
from di_operator.lifecycle.job_types.tasks.standbys import reserve
from di_operator.lifecycle.observed.plan import Plan, lost_nodes, outdated_pods
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import count_of, earliest
from di_operator.lifecycle.policies.deletion import delete, delete_pod, is_terminating
from di_operator.lifecycle.policies.dependencies import waiting_tasks
from di_operator.lifecycle.policies.drain import departures, returns
from di_operator.lifecycle.policies.kueue_admission import Quota
from di_operator.lifecycle.policies.listed import listings
from di_operator.lifecycle.policies.node_checks import checked_tasks
from di_operator.lifecycle.policies.process_groups import group_files, grouped_tasks
from di_operator.lifecycle.policies.ranks import ranked_nodes
from di_operator.lifecycle.policies.scheduling_objects import scheduled_by
from di_operator.lifecycle.vocabulary.actions import Create, Delete, Reclaim, Replace
from di_operator.lifecycle.vocabulary.decision import Settings


def plan_tasks(snapshot: Snapshot, now: datetime, settings: Settings) -> Plan:
    """Return the plan: unwanted objects are deleted, missing ones created once they can be.

    Deleted are objects of an earlier job of the same name, surplus replicas (the highest indexes
    of a task that was scaled down) and outdated pods. So are failed or lost pods whose loss the
    status has counted. Pods that have to drain leave their Service first. Before all else,
    promoted standby pods get the labels of their new place. A name is used again only when its pod
    is gone.
    """
    counted = snapshot.status.counted
    ended = (*snapshot.failed, *snapshot.disrupted, *snapshot.displaced)
    dead = [pod for pod in ended if pod.uid in counted and not pod.terminating]
    quota = Quota.of(snapshot)
    dead.extend(quota.evicted)
    outdated, waiting = outdated_pods(snapshot)
    going = (*snapshot.surplus, *outdated, *dead)
    leaving = departures(snapshot, going, now)
    namesakes = [pod for pod in snapshot.predecessors if not pod.terminating]
    overdue, patience = lost_nodes(snapshot, now)
    pause = _pause(snapshot, now)
    fill = _fillable(snapshot, waiting, quota, now) if pause <= 0 else _Fill()
    standing = reserve(snapshot, now, may_make=pause <= 0 and _has_all(snapshot, fill, quota))
    removals: list[Delete | Reclaim] = [
        *standing.marks,
        *(delete(SERVICES, found) for found in snapshot.old_services if not is_terminating(found)),
        *(delete(CONFIGMAPS, c) for c in snapshot.old_configmaps if not is_terminating(c)),
        *(*leaving.marks, *returns(snapshot, going), *listings(snapshot)),
        *(delete_pod(pod) for pod in (*namesakes, *leaving.due, *standing.due)),
        *(delete_pod(pod, grace_period_seconds=0) for pod in overdue),
    ]
    standbys = quota.fitting_standbys(standing.wanted, fill.slots)
    creations, obstacle = (
        _creations(snapshot, fill.slots, standbys, settings, now) if pause <= 0 else ([], None)
    )
    return Plan(
        removals=tuple(removals),
        creations=tuple(creations),
        created=0 if obstacle else len(fill.slots),
        removed=len(leaving.due) + len(standing.due) + len(overdue),
        waiting=fill.waiting,
        obstacle=obstacle,
        restores_lists=any(action.resource == CONFIGMAPS for action in creations)
        and _lists_are_spoilt(snapshot)
        and (snapshot.configmap is not None or _pods_have_files(snapshot)),
        pause=pause,
        events=standing.events,
        requeue_after=earliest(
            patience, fill.next_due, leaving.requeue_after, standing.requeue_after
        ),
    )


def _pause(snapshot: Snapshot, now: datetime) -> float:
    if not snapshot.missing and not any(missing_services(snapshot)):
        return 0.0
    return max(settling(snapshot, now), until_retry(snapshot, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fill:
    """The slots that can get a pod now, the reason why others cannot, and the delay until the next
    can.
    """

    slots: list[Slot] = field(default_factory=list)
    waiting: str | None = None
    next_due: float | None = None


def _fillable(snapshot: Snapshot, waiting: Set[str], quota: Quota, now: datetime) -> _Fill:
    """Return the slots that can get a pod now.

    ``waiting`` are those that wait for outdated pods to end.
    """
    leftovers = [*snapshot.old_services, *snapshot.old_configmaps]
    if leftovers or any(map(is_terminating, snapshot.services)):
        why = "waiting for the Service of an earlier job of the same name to be gone"
        return _Fill(waiting=why)
    held_by_namesakes = {pod.name for pod in snapshot.predecessors}
    waits, elastic = waiting_tasks(snapshot), snapshot.elastic
    paused = pauses_left(snapshot, now)
    slots: list[Slot] = []
    reasons: list[str] = []
    pauses: list[float] = []
    # For restarted tasks the reason is their outdated pods, below.
    for slot in (each for each in _due(snapshot) if each.name not in waiting):
        if slot.name in held_by_namesakes:
            reasons.append(f"waiting for pod {slot.name} of an earlier job to be gone")
        elif slot.task.name in waits:
            reasons.append(f"task {slot.task.name} waits for task {waits[slot.task.name]}")
        elif slot.name in paused:
            reasons.append(
                f"pod {slot.name} failed repeatedly, and is created again after its back-off"
            )
            pauses.append(paused[slot.name])
        else:
            slots.append(slot)
    ending = [
        *(*snapshot.outdated, *snapshot.terminating, *snapshot.failed),
        *(*snapshot.disrupted, *snapshot.displaced),
    ]
    reasons.extend(
        f"waiting for pod {pod.name} to end" for pod in ending if pod.name not in elastic
    )
    if waiting and not reasons:
        reasons.append("waiting for pods that were scaled away to end")
    others = len(set(reasons)) - 1
    more = f" (and {count_of(others, 'more reason')})" if others > 0 else ""
    return _Fill(
        slots=quota.fitting(slots),
        waiting=f"{reasons[0]}{more}" if reasons else None,
        next_due=min(pauses, default=None),
    )


def _has_all(snapshot: Snapshot, fill: _Fill, quota: Quota) -> bool:
    """Return whether the job is up and every replica has a pod that is not ending."""
    phase = snapshot.status.phase
    is_up = phase is not None and phase.is_up
    lacks = any(slot.name not in quota.barred for slot in snapshot.missing)
    return is_up and not lacks and fill.waiting is None


def _due(snapshot: Snapshot) -> tuple[Slot, ...]:
    """Return the missing slots that are due now, unless something blocks them.

    Slots of elastic tiers come last: the job runs without them. So they take no quota from the
    others, and a refused create of theirs delays no other pod.
    """
    core = tuple(slot for slot in snapshot.missing if slot.is_core)
    phase = snapshot.status.phase
    due = snapshot.missing if not core and phase is not None and phase.is_up else core
    return in_creation_order(due)


def _creations(
    snapshot: Snapshot,
    slots: list[Slot],
    standbys: Sequence[tuple[Task, int]],
    settings: Settings,
    now: datetime,
) -> tuple[list[Create | Replace], str | None]:
    """Return the next creations, and the reason if missing pods are not among them."""
    if snapshot.spec is None or snapshot.old_services or snapshot.old_configmaps:
        return [], None
    actions: list[Create | Replace] = [*missing_services(snapshot)]
    groups = group_files(snapshot, settings.service_domain)
    behind = snapshot.configmap is not None and not has_groups(snapshot.configmap, groups)
    if not slots and not standbys and not behind and not _lists_are_spoilt(snapshot):
        return actions, None
    ranks, nodes = ranked_nodes(snapshot, settings.service_domain)
    has_files = bool(groups) or _is_by_file(snapshot) or snapshot.configmap is not None
    files = nodes.files() if has_files else {}
    if (size := sum(map(len, (*files.values(), *groups.values())))) > MAX_NODE_LISTS:
        # Existing pods keep their lists; new ones could not start without theirs.
        return actions, (
            f"the DNS names of {count_of(len(snapshot.slots), 'pod')} take {size} bytes of the "
            f"{MAX_NODE_LISTS} that node lists may have; lower the replicas of the job's tasks"
        )
    actions.extend(_lists(snapshot, files, groups))
    frame = pod_frame(snapshot, snapshot.spec, nodes, settings)
    for slot in slots:
        record = snapshot.status.ledger.record(slot.task.name, slot.key)
        recipe = PodRecipe(
            frame=frame,
            task=slot.task,
            index=slot.index,
            rank=ranks[slot.name],
            node=slot.node,
            memory=record.memory,
            avoided=record.avoided(now),
        )
        actions.append(Create(resource=PODS, recipe=recipe, stage=creation_stage(slot)))
    for task, number in standbys:
        recipe = PodRecipe(frame=frame, task=task, index=number, rank=None)
        actions.append(Create(resource=PODS, recipe=recipe, stage=LAST_STAGE))
    return actions, None


def pod_frame(snapshot: Snapshot, spec: JobSpec, nodes: NodeLists, settings: Settings) -> PodFrame:
    """Return what all pods that the job creates now have in common.

    Args:
        snapshot: of the job.
        spec: its spec.
        nodes: the addresses of its pods.
        settings: of this installation.
    """
    policy, (gang, provisioned) = spec.failure_policy, scheduled_by(snapshot)
    return PodFrame(
        job=snapshot.job,
        replicas=Counter(slot.task.name for slot in snapshot.slots),
        tasks=tuple(snapshot.tasks),
        restarts=snapshot.status.restarts,
        attempts=snapshot.status.restart_attempts,
        replica_attempts=snapshot.status.replica_attempts,
        volumes=spec.volumes,
        nodes=nodes,
        by_file=_is_by_file(snapshot),
        server_url=settings.server_url,
        access=Access(
            token_audience=settings.token_audience,
            server_ca=settings.server_ca,
            job_secret=_secret(snapshot, settings),
        ),
        binding=settings.binding,
        kinds=snapshot.grant.kinds if snapshot.grant is not None else {},
        priority_class=settings.priority_class(spec),
        checkpoints=Checkpoints.of(spec.checkpoint, snapshot.job),
        artifacts=spec.artifacts,
        code=spec.code,
        avoided=snapshot.status.avoided_nodes,
        checked=checked_tasks(snapshot),
        keeps_last_words=policy is not None,
        grouped=grouped_tasks(snapshot),
        in_place=frozenset(
            task.name
            for task in snapshot.tasks
            if policy is not None and policy.may_restart_in_place(task.name)
        ),
        ports=JobPorts.of(snapshot.uid, snapshot.tasks),
        gang=gang,
        provisioned=provisioned,
        topology=spec.scheduling.topology,
        domains=queueing.domains if (queueing := snapshot.queueing) is not None else Domains(),
        services=service_environment(snapshot.job, snapshot.tasks, settings.service_domain),
    )


def _secret(snapshot: Snapshot, settings: Settings) -> str | None:
    """Return the secret that the job's pods share; None while a pod of an earlier version runs.

    Such a pod does not have the secret, and pods that have it would not answer.
    """
    if settings.job_secret_key is None:
        return None
    pods = (*snapshot.held.values(), *snapshot.standbys, *snapshot.surplus)
    if not all(_knows_secret(pod) for pod in pods if not (pod.terminating or pod.is_finished)):
        return None
    return job_secret(settings.job_secret_key, snapshot.uid)


def _knows_secret(pod: Pod) -> bool:
    return ANNOTATION_JOB_SECRET in (pod.raw["metadata"].get("annotations") or {})


def _needs_files(snapshot: Snapshot) -> bool:
    """Return whether new pods mount the job's ConfigMap."""
    return bool(grouped_tasks(snapshot)) or _is_by_file(snapshot)


def _pods_have_files(snapshot: Snapshot) -> bool:
    """Return whether existing pods mount it: later rules may add groups to a job."""
    told = snapshot.status.groups.keys()
    is_told = not told.isdisjoint(grouped_tasks(snapshot))
    return is_told or _is_by_file(snapshot)


def _is_by_file(snapshot: Snapshot) -> bool:
    """Return whether the node lists of a job are too long for its pods' environment."""
    return len(snapshot.slots) > NODES_FILE_THRESHOLD


def _lists_are_spoilt(snapshot: Snapshot) -> bool:
    """Return whether the files that running pods read were deleted or edited."""
    if snapshot.configmap is None:
        return _needs_files(snapshot)
    return not is_as_written(snapshot.configmap)


def _lists(
    snapshot: Snapshot, files: Mapping[str, str], groups: Mapping[str, str]
) -> Iterator[Create | Replace]:
    """Update the file before a pod starts that reads it."""
    present = snapshot.configmap
    if present is None:
        if files:
            recipe = ConfigMapRecipe(job=snapshot.job, files=files, groups=groups)
            yield Create(resource=CONFIGMAPS, recipe=recipe)
        return
    # The file stays when a job shrinks below the threshold: existing pods still mount it.
    if not has_files(present, {**files, **groups}) or not is_as_written(present):
        version = present["metadata"]["resourceVersion"]
        recipe = ConfigMapRecipe(
            job=snapshot.job, files=files, groups=groups, resource_version=version
        )
        yield Replace(resource=CONFIGMAPS, recipe=recipe)
