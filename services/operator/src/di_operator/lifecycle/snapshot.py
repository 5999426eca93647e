"""One job and everything that belongs to it, read once and sorted into buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeVar

from di_api.coordinated import Coordinated, Replica, Role, Template, coordinator_name
from di_api.field_error import FieldError
from di_api.model import JobSpec, Task, TaskType
from di_api.names import ENV_RANK, pod_name
from di_api.ownership import (
    controlling_job,
    is_controlled_by,
    is_of_earlier_job,
    names_earlier_job,
)
from di_operator.lifecycle.placement import Grant, Placement
from di_operator.lifecycle.pods import Pod, PodReader
from di_operator.lifecycle.specs import Examine, examine
from di_operator.lifecycle.status import Status

Object = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One replica the spec asks for, whether or not it has a pod."""

    name: str
    task: Task
    index: int
    node: str = ""
    """Where the allocator wants it; empty: the cluster's scheduler decides."""
    replica: Replica | None = None
    """Of a coordinated job, what it is; its task is then that of all of one role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One job and its objects at one moment.

    A pod of this job (by owner UID) whose name is a slot's is in ``held`` and in exactly one of
    live, displaced, succeeded, failed, disrupted, terminating; ``ready`` is a part of live.
    ``displaced`` run where, or in a group, that the placement has given up. Others of its pods
    are ``surplus``, or ``leaving`` once deleted. Pods and objects of an earlier job of the same
    name are ``predecessors``. Objects of anybody else are not kept: whether a name is taken is
    the API server's to say, at the time of the create.
    """

    job: Object
    namespace: str
    name: str
    uid: str
    generation: int
    status: Status
    spec: JobSpec | None
    """None if it may not be acted by (see ``errors``) or is not needed any more."""
    errors: tuple[FieldError, ...]
    """What is wrong with the spec; of a job that has been started it may be known all the same."""
    has_started: bool
    """Whether the job ever had pods that ran, or has pods now."""
    grant: Grant | None
    """What the allocator says about the job, None without an allocator."""
    placement: Placement | None
    """Where the replicas are to run; None for a job that the cluster's scheduler places."""
    tasks: tuple[Task, ...]
    """Those of the spec, or one for each role of a coordinated job."""
    slots: tuple[Slot, ...]
    held: Mapping[str, Pod]
    live: tuple[Pod, ...]
    ready: tuple[Pod, ...]
    displaced: tuple[Pod, ...]
    succeeded: tuple[Pod, ...]
    failed: tuple[Pod, ...]
    disrupted: tuple[Pod, ...]
    terminating: tuple[Pod, ...]
    surplus: tuple[Pod, ...]
    leaving: tuple[Pod, ...]
    missing: tuple[Slot, ...]
    predecessors: tuple[Pod, ...]
    services: tuple[Object, ...]
    """One of a job with tasks, one a pod of a coordinated job."""
    configmap: Object | None
    old_services: tuple[Object, ...]
    old_configmaps: tuple[Object, ...]

    @classmethod
    def build(
        cls,
        job: Object,
        pods: Iterable[Object] = (),
        services: Iterable[Object] = (),
        configmaps: Iterable[Object] = (),
        *,
        read: Examine = examine,
        read_pod: PodReader = Pod.read,
        grant: Grant | None = None,
        aggregator: Template | None = None,
    ) -> Snapshot:
        """Sort the objects of the job's namespace that a job of its name controls.

        Objects of others may be among them: ownership is judged by the controller reference, so
        the caller may pass too many, never too few. ``read`` is the place for
        :meth:`~di_operator.lifecycle.specs.SpecCache.examine`, ``read_pod`` that for a
        :class:`~di_operator.lifecycle.pods.PodCache`, ``aggregator`` the template of the
        AggregatorConfig where one was read. Never raises for what a user can write.
        """
        metadata = job["metadata"]
        status = Status.read(job.get("status"))
        own, predecessors = _by_owner(metadata, map(read_pod, pods), attrgetter("owner"))
        # A status that was wiped does not know of the pods that run.
        has_started = status.has_started or bool(own)
        spec, errors = _read(job, status, read, has_started=has_started)
        placement = _placement(spec, status, grant)
        tasks = _tasks(spec, aggregator) if spec else ()
        slots = tuple(_slots(metadata["name"], spec, tasks, placement)) if spec else ()
        own_services, old_services = _by_owner(metadata, services, controlling_job)
        own_configmaps, old_configmaps = _by_owner(metadata, configmaps, controlling_job)

        by_name = {pod.name: pod for pod in own}
        held = {
            slot.name: _at_its_rank(by_name.pop(slot.name), slot)
            for slot in slots
            if slot.name in by_name
        }
        buckets: dict[str, list[Pod]] = {
            kind: []
            for kind in ("live", "displaced", "succeeded", "failed", "disrupted", "terminating")
        }
        replicas = Counter(slot.task.name for slot in slots)
        for slot in slots:
            if pod := held.get(slot.name):
                buckets[_bucket(pod, slot, replicas[slot.task.name])].append(pod)
        return cls(
            job=job,
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            generation=metadata.get("generation") or 0,
            status=status,
            spec=spec,
            errors=errors,
            has_started=has_started,
            grant=grant,
            placement=placement,
            tasks=tasks,
            slots=slots,
            held=held,
            live=tuple(buckets["live"]),
            ready=tuple(pod for pod in buckets["live"] if pod.ready),
            displaced=tuple(buckets["displaced"]),
            succeeded=tuple(buckets["succeeded"]),
            failed=tuple(buckets["failed"]),
            disrupted=tuple(buckets["disrupted"]),
            terminating=tuple(buckets["terminating"]),
            surplus=tuple(pod for pod in by_name.values() if not pod.terminating),
            leaving=tuple(pod for pod in by_name.values() if pod.terminating),
            missing=tuple(slot for slot in slots if slot.name not in held),
            predecessors=tuple(predecessors),
            services=tuple(own_services),
            configmap=own_configmaps[0] if own_configmaps else None,
            old_services=tuple(old_services),
            old_configmaps=tuple(old_configmaps),
        )

    @property
    def is_frozen(self) -> bool:
        """Whether the spec of a job that runs cannot be read, so that nobody knows what to do."""
        return self.spec is None and self.has_started and bool(self.errors)

    @property
    def is_coordinated(self) -> bool:
        """Whether the job has a coordinator, as far as its spec is known."""
        return self.spec is not None and self.spec.coordinated is not None

    @property
    def service(self) -> Object | None:
        """The Service of a job with tasks."""
        return self.services[0] if self.services else None

    @property
    def is_deleted(self) -> bool:
        """Whether the job itself is being deleted; its objects then follow by their owner."""
        return "deletionTimestamp" in self.job["metadata"]

    def slot(self, name: str) -> Slot | None:
        """The replica of that name, None if the spec asks for none."""
        return next((slot for slot in self.slots if slot.name == name), None)

    def is_predecessor(self, found: Object) -> bool:
        """Whether an object was made for an earlier job of the same name."""
        return is_of_earlier_job(found, name=self.name, uid=self.uid)

    def is_own(self, found: Object) -> bool:
        """Whether an object is controlled by this very job."""
        return is_controlled_by(found, self.uid)


def _read(
    job: Object, status: Status, read: Examine, *, has_started: bool
) -> tuple[JobSpec | None, tuple[FieldError, ...]]:
    if status.phase is not None and status.phase.is_finished:
        return None, ()  # clean-up needs no slots, and the spec may be what ended the job
    reading = read(job)
    may_act = has_started or not reading.errors
    return reading.spec if may_act else None, reading.errors


def _placement(spec: JobSpec | None, status: Status, grant: Grant | None) -> Placement | None:
    if spec is None or not spec.preemptible:
        return None
    if grant is not None and grant.placement is not None:
        return grant.placement
    if status.placement is None and grant is not None:
        return {}  # the allocator has not looked at it yet
    return status.placement


def _tasks(spec: JobSpec, aggregator: Template | None) -> tuple[Task, ...]:
    coordinated = spec.coordinated
    if coordinated is None:
        return spec.tasks
    counts = Counter([Role.COORDINATOR, *(replica.role for replica in coordinated.replicas)])
    return tuple(
        Task(
            name=role.value,
            type=TaskType.NONE,
            replicas=counts[role],
            template=coordinated.template(role) or (role is Role.AGGREGATOR and aggregator) or {},
        )
        for role in Role
        if counts[role]
    )


def _slots(
    job: str, spec: JobSpec, tasks: Iterable[Task], placement: Placement | None
) -> Iterable[Slot]:
    if spec.coordinated is not None:
        yield from _replica_slots(job, spec.coordinated, {task.name: task for task in tasks})
        return
    for task in tasks:
        nodes = [""] * task.replicas if placement is None else placement.get(task.name, ())
        for index, node in enumerate(nodes):
            yield Slot(name=pod_name(job, task.name, index), task=task, index=index, node=node)


def _replica_slots(job: str, coordinated: Coordinated, tasks: Mapping[str, Task]) -> Iterable[Slot]:
    coordinator = Replica(name=coordinator_name(job), role=Role.COORDINATOR)
    for index, replica in enumerate((coordinator, *coordinated.replicas)):
        task = tasks[replica.role.value]
        yield Slot(name=replica.name, task=task, index=index, replica=replica)


def _at_its_rank(pod: Pod, slot: Slot) -> Pod:
    """The pod with the rank it was started with, whatever its annotation says by now.

    A template that sets the variable itself says nothing about the rank.
    """
    if pod.told_rank is None or pod.told_rank == pod.rank:
        return pod
    containers = (slot.task.template.get("spec") or {}).get("containers") or [{}]
    theirs = (variable.get("name") for variable in containers[0].get("env") or ())
    return pod if ENV_RANK in theirs else replace(pod, rank=pod.told_rank)


def _bucket(pod: Pod, slot: Slot, replicas: int) -> str:
    # Being deleted comes first: what a pod does after its SIGTERM is neither success nor failure.
    if pod.terminating:
        return "terminating"
    if pod.phase == "Succeeded":
        return "succeeded"
    if pod.phase == "Failed":
        return "disrupted" if pod.disrupted else "failed"
    if slot.node and (pod.node != slot.node or _has_other_peers(pod, slot, replicas)):
        return "displaced"
    return "live"


def _has_other_peers(pod: Pod, slot: Slot, replicas: int) -> bool:
    """Whether a learner was started in a group of another size.

    Learners train as one group whose size is fixed when it starts, so all of them begin anew from
    the last checkpoint. Collectors and evaluators come and go.
    """
    fixed = slot.task.type not in (TaskType.COLLECTOR, TaskType.EVALUATOR)
    return fixed and pod.task_replicas != replicas


def _by_owner(
    metadata: Object, found: Iterable[T], owner_of: Callable[[T], Object | None]
) -> tuple[list[T], list[T]]:
    """Return those the job controls, and those of earlier jobs of its name."""
    name, uid = metadata["name"], metadata["uid"]
    own, old = list[T](), list[T]()
    for each in found:
        owner = owner_of(each)
        if owner is not None and owner.get("uid") == uid:
            own.append(each)
        elif names_earlier_job(owner, name=name, uid=uid):
            old.append(each)
    return own, old
