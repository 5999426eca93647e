"""The queue state of a job: what Kueue has admitted, and which pods are therefore allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from di_api.field_error import mapping
from di_api.names import (
    ANNOTATION_SUSPENDED_BY,
    LABEL_QUEUE_PRIORITY,
    SUSPENDED_BY_QUEUE,
)
from di_api.queued import is_suspended_by_queue, queue_of
from di_api.spec import JobSpec, Task
from di_operator.builders.topology import Domains
from di_operator.kueue.bodies import PRIORITIES, Standing, sent_digest
from di_operator.kueue.injection import FindFlavor, injection_of, unknown_flavors
from di_operator.kueue.multikueue import (
    MultiKueueRole,
    is_admitted_elsewhere,
    multikueue_role,
    prebuilt_workload,
)
from di_operator.kueue.portions import (
    MAX_POD_SETS,
    PodSet,
    Portion,
    core_pod_sets,
    portions_of,
)
from di_operator.kueue.topology import domains_of, with_requests
from di_operator.kueue.workload import Object, State, Words, Workload, read_all

NOT_SERVED: Final = (
    "nothing admits it: Kueue (the resource workloads of kueue.x-k8s.io/v1beta2) is not installed"
)
NOT_WATCHED: Final = "nothing admits it: the operator does not look at Kueue (its setting `kueue`)"
NOT_ALLOWED: Final = "nothing admits it: the operator may not read Workloads of Kueue (RBAC)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kueue:
    """The state of Kueue at the time of a reconcile."""

    obstacle: str | None
    """Why Kueue admits nothing; None: it works, as far as known."""
    workloads: tuple[Object, ...] = ()
    """Workloads under the job's name."""
    flavor: FindFlavor = lambda _: None
    priority: Callable[[str], int | None] = lambda _: None
    """Returns the priority of a WorkloadPriorityClass; None if there is no such class."""


# Without slots, because of the cached properties.
@dataclass(frozen=True, kw_only=True)
class Queueing:
    """A job with a queue, and its Workloads."""

    side: MultiKueueRole
    standing: Standing
    obstacle: str | None
    problem: Words | None
    """Why no Workload can be created for the job, or why an admitted job cannot be resumed."""
    is_held: bool
    """Whether a user suspended the job, so that it does not wait in the queue."""
    by_queue: bool
    """Whether the queue keeps the job suspended."""
    goes_on: bool
    """Whether the job can continue while the state of its queue is unknown: it has been running."""
    portions: tuple[Portion, ...]
    pod_sets: tuple[PodSet, ...]
    sent: str
    """Digest of the spec that goes to another cluster with the core; empty if none does."""
    is_told: bool
    """Whether the job's status already comes from the cluster that runs it."""
    core: Workload | None
    extras: tuple[Workload, ...]
    old: tuple[Workload, ...]
    """Workloads of an earlier job of the same name, and those without an owner that a client has
    deleted.
    """
    flavor: FindFlavor

    @property
    def has_queue(self) -> bool:
        """Return whether the job waits for a queue: the label may have been removed."""
        return bool(self.standing.queue)

    @property
    def is_admitted(self) -> bool:
        """Return whether the core has quota, or another cluster has it for the job."""
        core = self.core
        if core is None or core.deleting:
            return False
        if self.side is MultiKueueRole.WORKER and not core.holds:
            return False  # its quota would be free before the pods are gone
        # Once a cluster is chosen, the job's status can come from it.
        is_sent = core.state is State.RESERVED and (core.cluster is not None or self.is_told)
        return core.state is State.ADMITTED or (self.side is MultiKueueRole.MANAGER and is_sent)

    @property
    def is_open(self) -> bool:
        """Return whether the job is allowed to have pods."""
        if not self.has_queue:
            return True
        if self.is_held:
            return False
        if self.obstacle is not None:
            return self.goes_on
        return self.is_admitted and (self.problem is None or self.goes_on)

    @property
    def words(self) -> Words:
        """Return why the job waits, with Kueue's own message if there is one."""
        if self.obstacle is not None:
            return Words(reason="QueueUnavailable", message=self.obstacle)
        if self.problem is not None:
            return self.problem
        if self.core is None or self.core.deleting:
            by = " by MultiKueue" if self.side is MultiKueueRole.WORKER else ""
            return Words(reason="Creating", message=f"its Workload is still to be made{by}")
        if self.core.state is State.FINISHED:
            return Words(reason="Finished", message="its Workload has ended; another is made")
        return self.core.words

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Return all Workloads of the job itself."""
        return self.extras if self.core is None else (self.core, *self.extras)

    def core_pods(self, portion: Portion) -> int:
        """Return how many pods of a task have been admitted with the core."""
        if self.core is None or not portion.base:
            return 0
        mine = (each for each in self.pod_sets if each.task == portion.task.name)
        return sum(self.core.count(each.name) for each in mine)

    def extras_of(self, task: str) -> tuple[Workload, ...]:
        """Return the Workloads of replicas of a task beyond the core."""
        return tuple(each for each in self.extras if each.task == task)

    def admitted_extras(self, task: str) -> int:
        """Return how many replicas of a task beyond the core are admitted."""
        return sum(
            each.state is State.ADMITTED and not each.deleting for each in self.extras_of(task)
        )

    @cached_property
    def admitted(self) -> Mapping[str, int]:
        """Return how many replicas of each task are admitted."""
        return {each.task.name: self._replicas(each) for each in self.portions}

    def _replicas(self, portion: Portion) -> int:
        base = self._base(portion)
        return base + self.admitted_extras(portion.task.name) if base or not portion.base else 0

    def _base(self, portion: Portion) -> int:
        """Return how many replicas of the core are admitted; with partial admission this can be
        fewer than the core has.
        """
        if self.core is None or not portion.base:
            return 0
        pods = self.core_pods(portion) - portion.task.standby
        return max(0, min(portion.base, pods // portion.task.pods_per_replica))

    def within(self, spec: JobSpec) -> JobSpec:
        """Return the spec with the replica counts of the core limited to what is admitted."""
        if self.obstacle is not None or self.core is None or not self.core.assigned:
            return spec
        most = {each.task.name: self._base(each) for each in self.portions if not each.extras}
        tasks = tuple(_at_most(task, most.get(task.name)) for task in spec.tasks)
        return spec if tasks == spec.tasks else replace(spec, tasks=tasks)

    def placed_within(
        self, placement: Mapping[str, tuple[str, ...]] | None
    ) -> Mapping[str, tuple[str, ...]] | None:
        """Return the nodes of the admitted replicas."""
        if placement is None or self.obstacle is not None or self.core is None:
            return placement
        admitted = self.admitted
        sizes = {each.task.name: each.task.pods_per_replica for each in self.portions}
        return {
            task: nodes[: admitted.get(task, 0) * sizes.get(task, 1)]
            for task, nodes in placement.items()
        }

    def fitted(self, task: Task) -> Task:
        """Return the task with the additions that its pods need to use their quota."""
        source = self._assigned(task.name)
        if source is None:
            return task
        injection = injection_of(source, task.name, self.flavor)
        if injection.is_empty or not task.template:
            return task
        return replace(task, template=injection.into(task.template))

    @property
    def domains(self) -> Domains:
        """Return the podSets whose pods Kueue assigns to topology domains."""
        return domains_of(self.core, self.pod_sets)

    def _assigned(self, task: str) -> Workload | None:
        """Return the Workload that decides on the flavors of a task: the core, or for a task
        without a core the first that was admitted. All other Workloads are created for the same
        flavors.
        """
        if self.core is not None and task in self.core.assigned:
            return self.core
        return next((each for each in self.extras_of(task) if task in each.assigned), None)

    def barred(self, replicas: Mapping[str, Iterable[int]]) -> frozenset[tuple[str, int]]:
        """Return the replicas that are not allowed to have pods: the last ones of each task that
        has some beyond the core.
        """
        barred: set[tuple[str, int]] = set()
        for portion in self.portions:
            name = portion.task.name
            if portion.extras:
                there = sorted({*replicas.get(name, ())})
                barred.update((name, index) for index in there[self.admitted[name] :])
        return frozenset(barred)


def read_queueing(
    job: Object,
    kueue: Kueue,
    *,
    spec: JobSpec | None,
    tasks: Iterable[Task],
    placement: Mapping[str, tuple[str, ...]] | None,
    goes_on: bool,
) -> Queueing | None:
    """Return the queue state of a job; None for a job without a queue and without Workloads.

    `spec` is None if it is unreadable or not needed, and gives no portions. `placement` is the
    allocator's; None: the job is not allocated.
    """
    queue = queue_of(job)
    found = read_all(kueue.workloads)
    if queue is None and not found:
        return None
    uid = job["metadata"]["uid"]
    side = multikueue_role(job)
    prebuilt = prebuilt_workload(job) if side is MultiKueueRole.WORKER else None
    own = [
        each
        for each in found
        if each.owner == uid or (each.owner is None and each.name == prebuilt)
    ]
    # Workloads that MultiKueue creates also have the labels of the manager's.
    core = next((each for each in own if each.is_core), None)
    tasks = tuple(tasks)
    placed = _placed(tasks, placement) if placement is not None else None
    portions = (
        portions_of(spec, tasks, placed=placed, whole=side.is_whole) if spec is not None else ()
    )
    topology = spec.scheduling.topology if spec is not None else ()
    pod_sets, unsupported = with_requests(core_pod_sets(portions), topology)
    standing, problem = _standing(job, queue or "", spec, kueue, core)
    by_queue = is_suspended_by_queue(job)
    return Queueing(
        side=side,
        standing=standing,
        obstacle=kueue.obstacle,
        problem=problem or unsupported or _problem(core, pod_sets, kueue),
        is_held=spec is not None and spec.suspend and not by_queue,
        by_queue=by_queue,
        goes_on=goes_on,
        portions=portions,
        pod_sets=pod_sets,
        sent=sent_digest(mapping(job.get("spec"))) if side is MultiKueueRole.MANAGER else "",
        is_told=side is MultiKueueRole.MANAGER
        and core is not None
        and is_admitted_elsewhere(job, core.reserved),
        core=core,
        extras=tuple(each for each in own if not each.is_core),
        old=tuple(
            each for each in found if each not in own and (each.owner is not None or each.deleting)
        ),
        flavor=kueue.flavor,
    )


def _standing(
    job: Object, queue: str, spec: JobSpec | None, kueue: Kueue, core: Workload | None
) -> tuple[Standing, Words | None]:
    priority = PRIORITIES[spec.priority.value] if spec is not None else 0
    name = mapping(mapping(job.get("metadata")).get("labels")).get(LABEL_QUEUE_PRIORITY)
    if not isinstance(name, str) or not name or kueue.obstacle is not None:
        return Standing(queue=queue, priority=priority), None
    value = kueue.priority(name)
    if value is None and core is not None:
        # A Workload keeps its present place.
        kept = Standing(
            queue=queue, priority=core.priority or 0, priority_class=core.priority_class
        )
        return kept, None
    if value is None:
        words = f"WorkloadPriorityClass {name}, which the job's label names, does not exist"
        return Standing(queue=queue, priority=priority), Words(
            reason="PriorityClassNotFound", message=words
        )
    return Standing(queue=queue, priority=value, priority_class=name), None


def _problem(core: Workload | None, pod_sets: tuple[PodSet, ...], kueue: Kueue) -> Words | None:
    if len(pod_sets) > MAX_POD_SETS and core is None:
        words = (
            f"Kueue admits at most {MAX_POD_SETS} groups of equal pods together, and the job's "
            f"tasks have {len(pod_sets)}"
        )
        return Words(reason="TooManyPodSets", message=words)
    if core is None or not core.state.holds_quota or kueue.obstacle is not None:
        return None
    unknown = unknown_flavors(core, kueue.flavor)
    if not unknown:
        return None
    words = f"admitted, and waits for ResourceFlavor {unknown[0]}, which cannot be read"
    return Words(reason="FlavorNotFound", message=words)


def _placed(tasks: Iterable[Task], placement: Mapping[str, tuple[str, ...]]) -> Mapping[str, int]:
    return {task.name: len(placement.get(task.name, ())) // task.pods_per_replica for task in tasks}


def _at_most(task: Task, most: int | None) -> Task:
    return task if most is None or most >= task.replicas else replace(task, replicas=most)


def resumed() -> dict[str, Any]:
    """Return the patch that resumes a job that its queue admits."""
    return {
        "metadata": {"annotations": {ANNOTATION_SUSPENDED_BY: None}},
        "spec": {"suspend": False},
    }


def suspended() -> dict[str, Any]:
    """Return the patch that suspends a job that its queue does not admit."""
    return {
        "metadata": {"annotations": {ANNOTATION_SUSPENDED_BY: SUSPENDED_BY_QUEUE}},
        "spec": {"suspend": True},
    }
