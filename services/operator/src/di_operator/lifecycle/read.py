"""Builds the snapshot of a job and its objects, once for each decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, TypeVar

from di_api.field_error import FieldError
from di_api.names import ENV_RANK, nodes_config_map_name
from di_api.ownership import controlling_job, names_earlier_job
from di_api.spec import JobSpec, Task, TaskType, Template
from di_api.stand_ins import StandIns, read_stand_ins, standby_number
from di_operator.kueue.queueing import NOT_WATCHED, Kueue, Queueing, read_queueing
from di_operator.lifecycle.job_types.choose import job_type_of
from di_operator.lifecycle.observed.completed import Completed, asked_for
from di_operator.lifecycle.observed.placement import Grant, Placement
from di_operator.lifecycle.observed.pods import Answers, Pod, PodReader, has_succeeded
from di_operator.lifecycle.observed.snapshot import (
    Slot,
    Snapshot,
    is_before_replica,
    is_before_task,
)
from di_operator.lifecycle.observed.sources import NO_SOURCES, Sources
from di_operator.lifecycle.observed.specs import Examine, examine
from di_operator.lifecycle.observed.status import AvoidedNodes, Status
from di_operator.lifecycle.vocabulary.rules import Part, Then

Object = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The pods requested by the spec, limited by the allocator and the queue."""

    spec: JobSpec | None
    errors: tuple[FieldError, ...]
    placement: Placement | None
    tasks: tuple[Task, ...]
    slots: tuple[Slot, ...]
    queueing: Queueing | None
    completed: Completed
    """The completed indexes of the status that the spec still has replicas for."""


@dataclass(slots=True, kw_only=True)
class _Buckets:
    """The pods that have a slot, by state."""

    outdated: list[Pod] = field(default_factory=list)
    live: list[Pod] = field(default_factory=list)
    displaced: list[Pod] = field(default_factory=list)
    succeeded: list[Pod] = field(default_factory=list)
    failed: list[Pod] = field(default_factory=list)
    disrupted: list[Pod] = field(default_factory=list)
    terminating: list[Pod] = field(default_factory=list)
    renewed: list[Pod] = field(default_factory=list)


def read_snapshot(
    job: Object,
    sources: Sources = NO_SOURCES,
    *,
    read: Examine = examine,
    read_pod: PodReader = Pod.read,
) -> Snapshot:
    """Return the snapshot of a job, with those objects of its namespace that it controls.

    ``read`` is usually :meth:`~di_operator.lifecycle.observed.specs.SpecCache.examine`,
    ``read_pod`` a :class:`~di_operator.lifecycle.observed.pod_cache.PodCache`. Never raises for
    user input.
    """
    metadata = job["metadata"]
    status = Status.read(job.get("status"))
    own, predecessors = _by_owner(metadata, map(read_pod, sources.pods), attrgetter("owner"))
    # A wiped status does not show that pods already run.
    has_started = status.has_started or bool(own)
    asked = _asked(job, status, sources, read, has_started=has_started)
    stand_ins = read_stand_ins(metadata["name"], job.get("status"))
    slots = _as_served(asked.slots, stand_ins)
    services, old_services = _by_owner(metadata, sources.services, controlling_job)
    # A job may have other ConfigMaps, as companions.
    name = nodes_config_map_name(metadata["name"])
    lists = (each for each in sources.configmaps if each["metadata"]["name"] == name)
    configmaps, old_configmaps = _by_owner(metadata, lists, controlling_job)

    by_name = {pod.name: pod for pod in own}
    held = {
        slot.name: _at_its_rank(by_name.pop(slot.name), slot)
        for slot in slots
        if slot.name in by_name
    }
    deleted, _ = _by_owner(metadata, map(Pod.read, sources.deleted_pods), attrgetter("owner"))
    pods = _sorted(slots, held, status, asked, evicted={pod.uid for pod in deleted})
    gone = _gone(slots, held, {pod.name: pod for pod in deleted}, status)
    completed, done = _completed(slots, (*pods.succeeded, *gone), asked.completed)
    others = [pod for pod in by_name.values() if not pod.terminating]
    standby = {pod.name for pod in others if _stands_by(pod, metadata["name"], asked.tasks)}
    return Snapshot(
        job=job,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation") or 0,
        status=status,
        spec=asked.spec,
        errors=asked.errors,
        has_started=has_started,
        grant=sources.grant,
        reports_since=sources.reports_since,
        largest_node_memory=sources.largest_node_memory,
        nodes=sources.nodes,
        could_run=sources.could_run,
        suspect_nodes=sources.suspect_nodes,
        notification_targets=sources.notification_targets,
        suspend_idle_jobs=sources.suspend_idle_jobs,
        scale_down_idle_jobs=sources.scale_down_idle_jobs,
        placement=asked.placement,
        tasks=asked.tasks,
        slots=slots,
        held=held,
        outdated=tuple(pods.outdated),
        live=tuple(pods.live),
        ready=tuple(pod for pod in pods.live if pod.ready),
        renewed=tuple(pods.renewed),
        displaced=tuple(pods.displaced),
        succeeded=tuple(pods.succeeded),
        deleted=tuple(deleted),
        completed_indexes=completed,
        done=done,
        failed=tuple(pods.failed),
        disrupted=tuple(pods.disrupted),
        terminating=tuple(pods.terminating),
        stand_ins=stand_ins,
        standbys=tuple(pod for pod in others if pod.name in standby),
        surplus=tuple(pod for pod in others if pod.name not in standby),
        leaving=tuple(pod for pod in by_name.values() if pod.terminating),
        missing=tuple(s for s in slots if s.name not in held and s.name not in done),
        predecessors=tuple(predecessors),
        services=tuple(services),
        configmap=configmaps[0] if configmaps else None,
        companions=sources.companions,
        scheduling_objects=sources.scheduling_objects,
        old_services=tuple(old_services),
        old_configmaps=tuple(old_configmaps),
        queueing=asked.queueing,
        trial=sources.trial,
    )


def _asked(
    job: Object, status: Status, sources: Sources, read: Examine, *, has_started: bool
) -> _Asked:
    spec, errors = _read(job, status, read, has_started=has_started)
    completed = asked_for(status.completed_indexes, spec)
    placement = _placement(spec, status, sources.grant)
    tasks, slots = _slots(job, spec, placement, sources.aggregator)
    queueing = read_queueing(
        job,
        sources.kueue or Kueue(obstacle=NOT_WATCHED),
        spec=spec,
        tasks=tasks,
        # Without an allocator, a placement from earlier times has no effect.
        placement=(placement or {}) if sources.grant is not None else None,
        goes_on=status.is_placed,
    )
    if spec is not None and queueing is not None:
        spec = queueing.within(spec)
        placement = queueing.placed_within(placement)
        tasks, slots = _fitted(queueing, *_slots(job, spec, placement, sources.aggregator))
    return _Asked(
        spec=spec,
        errors=errors,
        placement=placement,
        tasks=tasks,
        slots=slots,
        queueing=queueing,
        completed=completed,
    )


def _completed(
    slots: Iterable[Slot], succeeded: Iterable[Pod], written: Completed
) -> tuple[Completed, frozenset[str]]:
    """Return the completed indexes by task and the names of their slots, from existing pods and
    the status.
    """
    names = {pod.name for pod in succeeded}
    if not names and not written:
        return {}, frozenset()
    indexes = {task: set(found) for task, found in written.items()}
    for slot in slots:
        if slot.part is not Part.TASK:
            continue
        if slot.name in names:
            indexes.setdefault(slot.task.name, set()).add(slot.index)
        elif _is_completed(slot, written):
            names.add(slot.name)
    return {task: frozenset(found) for task, found in indexes.items()}, frozenset(names)


def _gone(
    slots: Iterable[Slot], held: Mapping[str, Pod], deleted: Mapping[str, Pod], status: Status
) -> list[Pod]:
    """Return the deleted pods that had succeeded for their slots, which have no other pod yet. A
    replica of a coordinator has no index: it is created again.
    """
    if not deleted:
        return []
    return [
        pod
        for slot in slots
        if slot.part is Part.TASK
        and (pod := deleted.get(slot.name)) is not None
        and slot.name not in held
        and not _is_outdated(pod, slot, status)
    ]


def _is_completed(slot: Slot, completed: Completed) -> bool:
    return slot.part is Part.TASK and slot.index in completed.get(slot.task.name, ())


def _sorted(
    slots: Iterable[Slot],
    held: Mapping[str, Pod],
    status: Status,
    asked: _Asked,
    *,
    evicted: Container[str],
) -> _Buckets:
    found = _Buckets()
    answers = Answers(status.phase, asked.spec.failure_policy if asked.spec else None)
    replicas = Counter(slot.task.name for slot in slots)
    counted = status.counted
    for slot in slots:
        if (pod := held.get(slot.name)) is None:
            continue
        if _is_outdated(pod, slot, status):
            found.outdated.append(pod)
            continue
        if _is_completed(slot, asked.completed) or (
            slot.part is Part.TASK
            and pod.terminating
            and (has_succeeded(pod) or pod.uid in evicted)
        ):
            # Even if its pod is gone or was replaced.
            found.succeeded.append(pod)
            continue
        answer = None
        if _is_to_be_judged(pod, slot, status):
            # A failed pod that is counted is deleted; what it does until then has no effect.
            answer = (
                Then.RESTART
                if pod.goes_on and pod.uid in counted
                else answers.of(pod, slot.part if slot.is_core else Part.ELASTIC, slot.task.name)
            )
        displaced = _is_displaced(pod, slot, replicas[slot.task.name], status.avoided_nodes)
        bucket = _bucket(found, pod, answer, is_displaced=displaced)
        bucket.append(pod)
        if answer is Then.RENEW and bucket is found.live:
            found.renewed.append(pod)
    return found


def _read(
    job: Object, status: Status, read: Examine, *, has_started: bool
) -> tuple[JobSpec | None, tuple[FieldError, ...]]:
    if status.is_finished:
        return None, ()  # Clean-up needs no slots, and a bad spec may be what ended the job.
    reading = read(job)
    may_act = has_started or not reading.errors
    return reading.spec if may_act else None, reading.errors


def _slots(
    job: Object, spec: JobSpec | None, placement: Placement | None, aggregator: Template | None
) -> tuple[tuple[Task, ...], tuple[Slot, ...]]:
    if spec is None:
        return (), ()
    return job_type_of(job, spec).slots(job["metadata"]["name"], spec, placement, aggregator)


def _fitted(
    queueing: Queueing, tasks: tuple[Task, ...], slots: tuple[Slot, ...]
) -> tuple[tuple[Task, ...], tuple[Slot, ...]]:
    """Return the tasks and slots with the node selectors and tolerations of their quota."""
    fitted = {task.name: queueing.fitted(task) for task in tasks}
    if all(fitted[task.name] is task for task in tasks):
        return tasks, slots
    return (
        tuple(fitted.values()),
        tuple(replace(slot, task=fitted[slot.task.name]) for slot in slots),
    )


def _placement(spec: JobSpec | None, status: Status, grant: Grant | None) -> Placement | None:
    if spec is None or not spec.preemptible:
        return None
    if grant is not None and grant.placement is not None:
        return grant.placement
    if status.placement is None and grant is not None:
        return {}  # The allocator has not considered the job yet.
    return status.placement


def _as_served(slots: tuple[Slot, ...], stand_ins: StandIns) -> tuple[Slot, ...]:
    """Return the slots with the names of the promoted standby pods that serve them."""
    if not stand_ins:
        return slots
    served = (stand_ins.get(slot.task.name, {}).get(slot.index) for slot in slots)
    return tuple(
        slot if pod is None or not slot.task.standby else replace(slot, name=pod)
        for slot, pod in zip(slots, served, strict=True)
    )


def _stands_by(pod: Pod, job: str, tasks: Iterable[Task]) -> bool:
    """Return whether a pod is a standby that was never promoted. A promoted one keeps its rank and
    cannot serve another place.
    """
    return pod.rank is None and any(
        task.standby and standby_number(job, task.name, pod.name) is not None for task in tasks
    )


def _at_its_rank(pod: Pod, slot: Slot) -> Pod:
    """Return the pod with the rank from its environment, in place of an edited annotation.

    Without effect if the template sets the variable itself.
    """
    if pod.told_rank is None or pod.told_rank == pod.rank:
        return pod
    containers = (slot.task.template_of(slot.index).get("spec") or {}).get("containers") or [{}]
    theirs = (variable.get("name") for variable in containers[0].get("env") or ())
    return pod if ENV_RANK in theirs else replace(pod, rank=pod.told_rank)


def _is_outdated(pod: Pod, slot: Slot, status: Status) -> bool:
    """Return whether a pod was created before the last restart of its task or its replica."""
    return is_before_task(pod, slot, status) or is_before_replica(pod, slot, status)


def _has_failed_anew(pod: Pod, slot: Slot, status: Status) -> bool:
    """Return whether a container was restarted in place after a failure that is not handled yet.

    The pods of a coordinator's replicas have the restartPolicy of their templates.
    """
    if slot.part is not Part.TASK or not pod.goes_on:
        return False
    return pod.failures > status.ledger.record(slot.task.name, slot.key).failures_of(pod.uid)


def _is_to_be_judged(pod: Pod, slot: Slot, status: Status) -> bool:
    """Return whether the failure rules apply to a pod: it failed, or the cluster is deleting it."""
    if pod.terminating:
        return pod.is_disrupted
    return pod.phase == "Failed" or _has_failed_anew(pod, slot, status)


def _bucket(found: _Buckets, pod: Pod, answer: Then | None, *, is_displaced: bool) -> list[Pod]:
    # Deletion takes precedence: after its SIGTERM a pod neither succeeds nor fails. But a rule may
    # count that the cluster deletes it.
    if pod.terminating:
        return found.failed if answer is Then.RESTART else found.terminating
    if pod.phase == "Succeeded":
        return found.succeeded
    if pod.phase == "Failed" or answer in (Then.RESTART, Then.RESCHEDULE):
        return found.disrupted if answer is Then.RESCHEDULE else found.failed
    return found.displaced if is_displaced else found.live


def _is_displaced(pod: Pod, slot: Slot, replicas: int, avoided: AvoidedNodes) -> bool:
    """Return whether a pod runs on a node, or in a group, that the placement has given up, or on a
    node that its task avoids.
    """
    if slot.node and (pod.node != slot.node or _has_other_peers(pod, slot, replicas)):
        return True
    return slot.task.node_check is not None and pod.node in avoided.get(slot.task.name, {})


def _has_other_peers(pod: Pod, slot: Slot, replicas: int) -> bool:
    """Return whether a learner was started in a group of another size.

    Learners train as one group of fixed size, so all of them restart from the last checkpoint.
    Others can come and go: collectors, evaluators, the members of an elastic group (whose
    processes restart in place), and replicas of several pods (each a group of its own).
    """
    task = slot.task
    fixed = task.type not in (TaskType.COLLECTOR, TaskType.EVALUATOR) and not task.has_pod_groups
    return fixed and not task.has_elastic_group and pod.task_replicas != replicas


def _by_owner(
    metadata: Object, found: Iterable[T], owner_of: Callable[[T], Object | None]
) -> tuple[list[T], list[T]]:
    """Return the objects that the job controls, and those of earlier jobs of its name."""
    name, uid = metadata["name"], metadata["uid"]
    own, old = list[T](), list[T]()
    for each in found:
        owner = owner_of(each)
        if owner is not None and owner.get("uid") == uid:
            own.append(each)
        elif names_earlier_job(owner, name=name, uid=uid):
            old.append(each)
    return own, old
