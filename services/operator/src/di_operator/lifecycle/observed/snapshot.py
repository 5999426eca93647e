"""One job and everything that belongs to it at one moment, sorted into buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from di_api.field_error import FieldError
from di_api.group_status import is_fixed_group
from di_api.ownership import is_controlled_by, is_managed_elsewhere, is_of_earlier_job
from di_api.spec import JobSpec, Task
from di_api.stand_ins import StandIns, serving_pod
from di_operator.kueue.queueing import Queueing
from di_operator.kueue.side import Side
from di_operator.lifecycle.observed.completed import Completed
from di_operator.lifecycle.observed.placement import Grant, Placement
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.status import ReplicaKey, Status
from di_operator.lifecycle.observed.trial import Trial
from di_operator.lifecycle.vocabulary.rules import Case, Part, Rule, Seen, rule_for

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One pod the spec asks for, whether or not there is one: a replica, or one of its pods."""

    name: str
    """Of the pod: that of the replica, unless one that stood by serves in its place."""
    task: Task
    part: Part
    """What its pod is to the job."""
    index: int
    node: str = ""
    """Where the allocator wants it; empty: the cluster's scheduler decides."""
    labels: Mapping[str, str]
    """Of its pod, beside the job's: decisions and other services rest on them."""

    @property
    def replica(self) -> ReplicaKey:
        """The replica it belongs to."""
        return self.task.name, self.index // self.task.pods_per_replica

    @property
    def replica_name(self) -> str:
        """What the replica is called: as its pod, or as all of its pods up to their place in it."""
        return self.name.rpartition("-")[0] if self.task.has_pod_groups else self.name

    @property
    def is_core(self) -> bool:
        """Whether the job needs its pod: it is not of the elastic tier of its task."""
        return self.task.is_core(self.index)

    @property
    def key(self) -> str:
        """What the replica is remembered by within its task, whatever pods it has."""
        return str(self.replica[1]) if self.part is Part.TASK else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One job and its objects at one moment.

    A pod of this job (by owner UID) whose name is a slot's is in ``held`` and in exactly one of
    outdated, live, displaced, succeeded, failed, disrupted, terminating; ``ready`` is a part of
    live, and so is ``renewed``: a container failed since the last status, and goes on in its pod.
    One whose index the status has as completed is in succeeded, whatever has become of it.
    ``outdated`` were made before their task was restarted as a whole, or before their replica of
    several pods was made anew: nothing that they do counts. ``displaced`` run where, or in a group,
    that the placement has given up, or on a node that their task is kept away from. Others of its
    pods are ``standbys`` if they were made to stand by and never had a place, else ``surplus``;
    both are ``leaving`` once deleted. Pods and objects of an earlier job of the same name are
    ``predecessors``. Objects of anybody else are not kept: whether a name is taken is
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
    reports_since: datetime | None
    """Since when reports of the job can come; None: di-server or the API server is away."""
    largest_node_memory: Decimal | None
    """Bytes that the largest node has for pods; None: not known."""
    nodes: Container[str] | None
    """Names of the cluster's nodes; None: not known."""
    notification_targets: frozenset[str] | None
    """Whom the job may have told of it; None: nobody tells anybody, and its wish is not judged."""
    placement: Placement | None
    """Where the replicas are to run; None for a job that the cluster's scheduler places."""
    tasks: tuple[Task, ...]
    """Those of the spec, or one for each role that a coordinator asks for."""
    slots: tuple[Slot, ...]
    held: Mapping[str, Pod]
    outdated: tuple[Pod, ...]
    live: tuple[Pod, ...]
    ready: tuple[Pod, ...]
    renewed: tuple[Pod, ...]
    displaced: tuple[Pod, ...]
    succeeded: tuple[Pod, ...]
    """Those that are there; `done` are all."""
    completed_indexes: Completed
    """The local indexes that have succeeded, by task: by the status, and by these pods."""
    done: frozenset[str]
    """The names of the slots that have succeeded, whether or not their pods are there."""
    failed: tuple[Pod, ...]
    disrupted: tuple[Pod, ...]
    terminating: tuple[Pod, ...]
    stand_ins: StandIns
    """Which pods serve in the place of a replica's own, also at places that there are no more."""
    standbys: tuple[Pod, ...]
    surplus: tuple[Pod, ...]
    leaving: tuple[Pod, ...]
    missing: tuple[Slot, ...]
    """Those that have no pod, and have not succeeded."""
    predecessors: tuple[Pod, ...]
    services: tuple[Object, ...]
    """One of a job with tasks, one a pod of a job with a coordinator."""
    configmap: Object | None
    companions: Mapping[int, Object] | None
    """Objects of the names that the job's companions have, by their place in the spec; None: nobody
    has looked lately."""
    scheduling_objects: Mapping[str, Object] | None
    """What is there for schedulers under the job's names, by kind and name (`Kind/name`); None:
    nobody has looked lately."""
    old_services: tuple[Object, ...]
    old_configmaps: tuple[Object, ...]
    queueing: Queueing | None = None
    """What the job's queue says; None: it has none."""
    trial: Trial | None = None
    """The answer to dry runs of pods of this spec; None: not known."""

    @property
    def is_frozen(self) -> bool:
        """Whether the spec of a job that runs cannot be read, so that nobody knows what to do."""
        return self.spec is None and self.has_started and bool(self.errors)

    @property
    def desired(self) -> Mapping[str, int]:
        """The pods of each task that the spec asks for."""
        counts = Counter(slot.task.name for slot in self.slots)
        return {task.name: counts[task.name] for task in self.tasks}

    @property
    def elastic(self) -> frozenset[str]:
        """The names of the slots of elastic tiers, without whose pods the job runs."""
        if all(task.elastic is None for task in self.tasks):
            return frozenset()
        return frozenset(slot.name for slot in self.slots if not slot.is_core)

    @property
    def awaited(self) -> tuple[Slot, ...]:
        """The slots whose pods have to succeed before all has been done.

        Of an elastic tier those whose pods run, or have succeeded: with nobody left to help, others
        are not waited for.
        """
        elastic = self.elastic
        if not elastic:
            return self.slots
        at_work = {pod.name for pod in self.live if pod.phase == "Running"}
        at_work |= self.done
        return tuple(s for s in self.slots if s.name not in elastic or s.name in at_work)

    def groups_of(self, pods: Iterable[str]) -> frozenset[ReplicaKey]:
        """The replicas of several pods that pods of these names belong to."""
        names = {*pods}
        return frozenset(
            slot.replica for slot in self.slots if slot.task.has_pod_groups and slot.name in names
        )

    def fixed_groups(self, pods: Iterable[str]) -> frozenset[str]:
        """The tasks with a process group that takes no member back, of the pods of these names."""
        names = {*pods}
        tasks = {slot.task.name: slot.task for slot in self.slots if slot.name in names}
        return frozenset(name for name, task in tasks.items() if self.is_fixed_group(task))

    def is_fixed_group(self, task: Task, *, is_resized: bool = False) -> bool:
        """Whether the group of a task is replaced as a whole when a member is lost, or, with
        `is_resized`, when it gets another number of them."""
        return is_fixed_group(
            task.name,
            group=task.process_group,
            pods_per_replica=task.pods_per_replica,
            policy=self.spec.failure_policy if self.spec is not None else None,
            is_resized=is_resized,
        )

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All pods of this very job, in a slot or not."""
        return (*self.held.values(), *self.standbys, *self.surplus, *self.leaving)

    @property
    def pod_group(self) -> Object | None:
        """The PodGroup that its pods are scheduled with, as far as it was looked at lately."""
        found = (self.scheduling_objects or {}).get(f"PodGroup/{self.name}")
        return found if found is not None and self.is_own(found) else None

    @property
    def is_bound(self) -> bool:
        """Whether every pod that it has is at work, or has been."""
        return all(pod.phase != "Pending" for pod in self.live)

    @property
    def is_deleted(self) -> bool:
        """Whether the job itself is being deleted; its objects then follow by their owner."""
        return "deletionTimestamp" in self.job["metadata"]

    @property
    def is_dispatched(self) -> bool:
        """Whether another cluster is to run the job."""
        return self.queueing is not None and self.queueing.side is Side.MANAGER

    @property
    def is_left_alone(self) -> bool:
        """Whether another controller manages the job, and this operator does nothing for it."""
        return is_managed_elsewhere(self.job) and not self.is_dispatched

    @property
    def is_active(self) -> bool:
        """Whether this operator makes pods for the job."""
        is_over = self.is_deleted or self.status.is_finished
        return not (is_over or self.is_left_alone or self.is_dispatched)

    @property
    def is_held_back(self) -> bool:
        """Whether a user or a queue keeps a job that never had pods from making any.

        The pods of all other jobs are made at once, or were: no dry run says more.
        """
        if not self.is_active or self.spec is None or self.errors or self.has_started:
            return False
        if self.queueing is not None and self.queueing.has_queue:
            return not self.queueing.is_open
        return self.spec.suspend

    @property
    def lacks_trial(self) -> bool:
        """Whether dry runs of the job's pods are to be made."""
        return self.trial is None and self.is_held_back

    @property
    def lacks_template(self) -> bool:
        """Whether a replica, or its Service, cannot be made for want of the AggregatorConfig."""
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
        """What is done about something that is seen now."""
        status = self.status
        return rule_for(
            Case(seen=seen, part=part, phase=status.phase, has_started=status.has_started)
        )

    def serving(self, task: str, index: int) -> str:
        """The name of the pod that serves at a local index of a task of single pods."""
        return serving_pod(self.name, task, index, self.stand_ins)

    def slot(self, name: str) -> Slot | None:
        """The replica of that name, None if the spec asks for none."""
        return next((slot for slot in self.slots if slot.name == name), None)

    def is_predecessor(self, found: Object) -> bool:
        """Whether an object was made for an earlier job of the same name."""
        return is_of_earlier_job(found, name=self.name, uid=self.uid)

    def is_own(self, found: Object) -> bool:
        """Whether an object is controlled by this very job."""
        return is_controlled_by(found, self.uid)


def is_before_task(pod: Pod, slot: Slot, status: Status) -> bool:
    """Whether a pod was made before the restart of its task that the status knows as the last.

    One of a later restart is seen by who reads an old status, or was edited, and is left alone.
    """
    return pod.attempt is not None and pod.attempt < status.restart_attempts.get(slot.task.name, 0)


def is_before_replica(pod: Pod, slot: Slot, status: Status) -> bool:
    """The same of its replica, if that is of several pods."""
    task, index = slot.replica
    attempts = status.replica_attempts.get(task)
    if not attempts or pod.replica_attempt is None:
        return False
    return pod.replica_attempt < attempts.get(index, 0)
