"""A job and all of its objects at one moment, sorted into buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from di_api.field_error import FieldError
from di_api.ownership import is_controlled_by, is_managed_elsewhere, is_of_earlier_job
from di_api.spec import JobSpec, Task
from di_api.stand_ins import StandIns, serving_pod
from di_api.status.groups import is_fixed_group
from di_operator.kueue.multikueue import MultiKueueRole
from di_operator.kueue.queueing import Queueing
from di_operator.lifecycle.observed.completed import Completed
from di_operator.lifecycle.observed.placement import Grant, Placement
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.status import ReplicaKey, Status
from di_operator.lifecycle.observed.trial import Trial
from di_operator.lifecycle.vocabulary.rules import Case, Part, Rule, Seen, rule_for

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A desired pod: a replica, or one of the pods of a replica; it may not exist yet."""

    name: str
    """Name of the pod: the replica's own, or that of a promoted standby pod."""
    task: Task
    part: Part
    """The role of the pod in the job."""
    index: int
    node: str = ""
    """The node that the allocator chose; empty if the cluster's scheduler decides."""
    labels: Mapping[str, str]
    """Labels of the pod in addition to the job's; decisions and other services rely on them."""

    @property
    def replica(self) -> ReplicaKey:
        """The replica that the pod belongs to."""
        return self.task.name, self.index // self.task.pods_per_replica

    @property
    def replica_name(self) -> str:
        """Name of the replica: the pod's name, or the common prefix of the names of all
        its pods.
        """
        return self.name.rpartition("-")[0] if self.task.has_pod_groups else self.name

    @property
    def is_core(self) -> bool:
        """Return whether the job needs this pod: it is not in the elastic tier of its task."""
        return self.task.is_core(self.index)

    @property
    def key(self) -> str:
        """Key of the replica's record within its task, the same for all of its pods."""
        return str(self.replica[1]) if self.part is Part.TASK else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One job and its objects at one moment.

    A pod of this job (by owner UID) with the name of a slot is in ``held`` and in exactly one of
    outdated, live, displaced, succeeded, failed, disrupted, terminating. ``ready`` is a part of
    live. So is ``renewed``: a container failed since the last status, and is restarted in the pod.
    A pod whose index the status lists as completed is in succeeded, whatever its own state is.

    ``outdated`` pods were created before their task, or their replica of several pods, was last
    restarted: nothing that they do counts. ``displaced`` pods run on a node, or in a group, that
    the placement has given up, or on a node that their task avoids.

    Other pods of the job are ``standbys`` if they were created as such and were never promoted,
    else ``surplus``; both are ``leaving`` once deleted. Pods and objects of an earlier job of the
    same name are ``predecessors``. Objects of other owners are left out: the API server reports at
    creation whether a name is taken.
    """

    job: Object
    namespace: str
    name: str
    uid: str
    generation: int
    status: Status
    spec: JobSpec | None
    """None if it must not be applied (see ``errors``) or is not needed any more."""
    errors: tuple[FieldError, ...]
    """The errors in the spec; a job that has started may have a usable spec all the same."""
    has_started: bool
    """Whether pods of the job ever ran, or exist now."""
    grant: Grant | None
    """The allocator's assignment, None without an allocator."""
    reports_since: datetime | None
    """Time since which reports can arrive; None while di-server or the API server is
    unreachable.
    """
    largest_node_memory: Decimal | None
    """Bytes that the largest node has for pods; None if unknown."""
    nodes: Container[str] | None
    """Names of the cluster's nodes; None if unknown."""
    could_run: Callable[[], bool]
    """Returns whether the nodes could run the job if they had no other pods; False if unknown.
    Computed on request: only a job with refused pods needs it.
    """
    suspect_nodes: Mapping[str, int]
    """Nodes that several jobs avoid, each with the number of these jobs."""
    notification_targets: frozenset[str] | None
    """Targets that the job may notify; None if notifications are off: the job's own are then not
    validated.
    """
    suspend_idle_jobs: bool
    """Whether the operator may suspend the job by its idlePolicy."""
    scale_down_idle_jobs: bool
    """Whether the operator may scale down the job by its idlePolicy."""
    placement: Placement | None
    """Nodes of the replicas; None for a job that the cluster's scheduler places."""
    tasks: tuple[Task, ...]
    """The tasks of the spec, or one for each role that a coordinator requests."""
    slots: tuple[Slot, ...]
    held: Mapping[str, Pod]
    outdated: tuple[Pod, ...]
    live: tuple[Pod, ...]
    ready: tuple[Pod, ...]
    renewed: tuple[Pod, ...]
    displaced: tuple[Pod, ...]
    succeeded: tuple[Pod, ...]
    """Succeeded pods that exist; `done` also has those that are gone."""
    deleted: tuple[Pod, ...]
    """Pods that succeeded and are gone, and that no status has counted yet; in no other field."""
    completed_indexes: Completed
    """Local indexes that have succeeded, by task: those in the status, of existing and of deleted
    pods.
    """
    done: frozenset[str]
    """Names of the slots that have succeeded, even if their pods are gone."""
    failed: tuple[Pod, ...]
    disrupted: tuple[Pod, ...]
    terminating: tuple[Pod, ...]
    stand_ins: StandIns
    """Promoted standby pods by the place that they serve, places that were scaled away included."""
    standbys: tuple[Pod, ...]
    surplus: tuple[Pod, ...]
    leaving: tuple[Pod, ...]
    missing: tuple[Slot, ...]
    """Slots that have no pod and have not succeeded."""
    predecessors: tuple[Pod, ...]
    services: tuple[Object, ...]
    """One Service of a job with tasks, or one for each pod of a job with a coordinator."""
    configmap: Object | None
    companions: Mapping[int, Object] | None
    """Objects with the names of the job's companions, by index in the spec; None if not read
    lately.
    """
    scheduling_objects: Mapping[str, Object] | None
    """Scheduling objects with the job's names, by `Kind/name`; None if not read lately."""
    old_services: tuple[Object, ...]
    old_configmaps: tuple[Object, ...]
    queueing: Queueing | None = None
    """The state of the job's queue; None without a queue."""
    trial: Trial | None = None
    """The result of dry runs for this spec; None if unknown."""

    @property
    def is_frozen(self) -> bool:
        """Return whether the job runs but its spec cannot be read."""
        return self.spec is None and self.has_started and bool(self.errors)

    @property
    def awaits_grant(self) -> bool:
        """Return whether the allocator does not yet release a job that the scheduler places: a
        gang without pods that waits for capacity.
        """
        is_refused = self.grant is not None and bool(self.grant.message)
        is_waiting = self.status.is_waiting and not self.held
        return self.placement is None and is_refused and is_waiting

    @property
    def desired(self) -> Mapping[str, int]:
        """Number of pods that the spec requests, by task."""
        counts = Counter(slot.task.name for slot in self.slots)
        return {task.name: counts[task.name] for task in self.tasks}

    @property
    def elastic(self) -> frozenset[str]:
        """Names of the slots in elastic tiers, which the job can run without."""
        if all(task.elastic is None for task in self.tasks):
            return frozenset()
        return frozenset(slot.name for slot in self.slots if not slot.is_core)

    @property
    def awaited(self) -> tuple[Slot, ...]:
        """The slots whose pods have to succeed before the job is complete.

        In an elastic tier these are the pods that run or have succeeded: when all others are done,
        none is created any more.
        """
        elastic = self.elastic
        if not elastic:
            return self.slots
        at_work = {pod.name for pod in self.live if pod.phase == "Running"}
        at_work |= self.done
        return tuple(s for s in self.slots if s.name not in elastic or s.name in at_work)

    def groups_of(self, pods: Iterable[str]) -> frozenset[ReplicaKey]:
        """Return the replicas of several pods that have a pod among these names."""
        names = {*pods}
        return frozenset(
            slot.replica for slot in self.slots if slot.task.has_pod_groups and slot.name in names
        )

    def fixed_groups(self, pods: Iterable[str]) -> frozenset[str]:
        """Return the tasks that have a pod among these names and a process group of fixed size."""
        names = {*pods}
        tasks = {slot.task.name: slot.task for slot in self.slots if slot.name in names}
        return frozenset(name for name, task in tasks.items() if self.is_fixed_group(task))

    def is_fixed_group(self, task: Task, *, is_resized: bool = False) -> bool:
        """Return whether a task's group is restarted as a whole when it loses a member or, with
        `is_resized`, when its number of members changes.
        """
        return is_fixed_group(
            task.name,
            group=task.process_group,
            pods_per_replica=task.pods_per_replica,
            policy=self.spec.failure_policy if self.spec is not None else None,
            is_resized=is_resized,
        )

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods of this job, with a slot or without."""
        return (*self.held.values(), *self.standbys, *self.surplus, *self.leaving)

    @property
    def pod_group(self) -> Object | None:
        """The PodGroup for the job's pods, if it was read lately."""
        found = (self.scheduling_objects or {}).get(f"PodGroup/{self.name}")
        return found if found is not None and self.is_own(found) else None

    @property
    def is_bound(self) -> bool:
        """Return whether every existing pod of the job is running, or has run."""
        return all(pod.phase != "Pending" for pod in self.live)

    @property
    def is_deleted(self) -> bool:
        """Return whether the job is being deleted; the garbage collector then deletes its
        objects.
        """
        return "deletionTimestamp" in self.job["metadata"]

    @property
    def is_dispatched(self) -> bool:
        """Return whether the job is dispatched to another cluster."""
        return self.queueing is not None and self.queueing.side is MultiKueueRole.MANAGER

    @property
    def is_left_alone(self) -> bool:
        """Return whether another controller manages the job; this operator then ignores it."""
        return is_managed_elsewhere(self.job) and not self.is_dispatched

    @property
    def is_active(self) -> bool:
        """Return whether this operator creates pods for the job."""
        is_over = self.is_deleted or self.status.is_finished
        return not (is_over or self.is_left_alone or self.is_dispatched)

    @property
    def is_held_back(self) -> bool:
        """Return whether suspension or a queue keeps a job from creating its first pods.

        All other jobs create their pods at once, or have done so: a dry run would add nothing.
        """
        if not self.is_active or self.spec is None or self.errors or self.has_started:
            return False
        if self.queueing is not None and self.queueing.has_queue:
            return not self.queueing.is_open
        return self.spec.suspend

    @property
    def lacks_trial(self) -> bool:
        """Return whether the job needs dry runs of its pods."""
        return self.trial is None and self.is_held_back

    @property
    def lacks_template(self) -> bool:
        """Return whether a replica or its Service cannot be created without the
        AggregatorConfig.
        """
        if self.spec is None or self.spec.coordinated is None:
            return False
        if all(slot.task.template for slot in self.slots):
            return False
        services = {service["metadata"]["name"] for service in self.services}
        return any(
            not slot.task.template
            for slot in self.slots
            if slot.name not in self.held or slot.name not in services
        )

    def rule(self, seen: Seen, part: Part) -> Rule:
        """Return the rule for an observation made now."""
        status = self.status
        return rule_for(
            Case(seen=seen, part=part, phase=status.phase, has_started=status.has_started)
        )

    def serving(self, task: str, index: int) -> str:
        """Return the name of the pod that serves a local index in a task of single pods."""
        return serving_pod(self.name, task, index, self.stand_ins)

    def slot(self, name: str) -> Slot | None:
        """Return the slot of that name, None if the spec requests none."""
        return next((slot for slot in self.slots if slot.name == name), None)

    def is_predecessor(self, found: Object) -> bool:
        """Return whether an object was created for an earlier job of the same name."""
        return is_of_earlier_job(found, name=self.name, uid=self.uid)

    def is_own(self, found: Object) -> bool:
        """Return whether the job is the controller of an object."""
        return is_controlled_by(found, self.uid)


def is_before_task(pod: Pod, slot: Slot, status: Status) -> bool:
    """Return whether a pod was created before the last restart of its task in the status.

    A pod of a later restart means that the status is stale or was edited; the pod is kept.
    """
    return pod.attempt is not None and pod.attempt < status.restart_attempts.get(slot.task.name, 0)


def is_before_replica(pod: Pod, slot: Slot, status: Status) -> bool:
    """Return whether a pod was created before the last restart of its replica, if that has several
    pods.
    """
    task, index = slot.replica
    attempts = status.replica_attempts.get(task)
    if not attempts or pod.replica_attempt is None:
        return False
    return pod.replica_attempt < attempts.get(index, 0)
