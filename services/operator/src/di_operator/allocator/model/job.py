"""A job as policies see it, and the answer it gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from di_api.spec import TaskType
from di_operator.allocator.goodput.params import Collecting, GoodputModel
from di_operator.allocator.model.node import Constraints
from di_operator.allocator.model.pod_scopes import PodScopes
from di_operator.allocator.model.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """One task of a job: `replicas` requested, any number from `minimum` to `maximum` possible.

    `resources` are those of one replica, `pods` included. In the allocator each pod is a replica.
    A replica of a DIJob has `unit` pods, and only whole ones are granted.
    """

    name: str
    type: TaskType = TaskType.LEARNER
    replicas: int
    minimum: int
    maximum: int
    unit: int = 1
    """All of these numbers, and what is granted, are multiples of it."""
    resources: Resources
    constraints: Constraints = field(default_factory=Constraints)
    elastic: bool = False
    """Its replicas are one process group whose members can come and go while the others stay."""
    scopes: tuple[PodScopes, ...] = ()
    """What quotas with scopes ask for, of each kind of pod that a replica has."""
    scoped: Resources = field(default_factory=dict)
    """What quotas with scopes count of one replica, by the names in `Account.quota`."""

    @property
    def counted(self) -> Resources:
        """Return what all quotas count of one replica."""
        return {**self.resources, **self.scoped} if self.scoped else self.resources

    @property
    def varies(self) -> bool:
        """Return whether the allocator chooses its number of replicas."""
        return self.minimum < self.maximum

    @property
    def comes_and_goes(self) -> bool:
        """Return whether its replicas can change while the rest of the job continues."""
        return self.follows_learners or self.unit > 1 or self.elastic

    @property
    def is_one_group(self) -> bool:
        """Return whether its replicas are the one process group that the whole job depends on."""
        return self.elastic or not self.comes_and_goes

    @property
    def follows_learners(self) -> bool:
        """Return whether its useful number depends on the learners."""
        return self.type in (TaskType.COLLECTOR, TaskType.EVALUATOR)


def scaled_of(tasks: Sequence[TaskInfo]) -> TaskInfo:
    """Return the task whose size determines a job's speed: a learner, or any other, if need be a
    fixed one.
    """
    learners = [task for task in tasks if task.type is TaskType.LEARNER]
    # A job with learners of fixed number is as fast as these, whatever its other tasks are.
    among = learners or tasks
    return next((task for task in among if task.varies), among[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The bounds on the jobs of a namespace together, and their usage besides; see `queues`.

    It is the same for all jobs of a namespace, except for `barred`.
    """

    guarantee: Resources = field(default_factory=dict)
    quota: Resources = field(default_factory=dict)
    """Resources that are not named are unbounded. A ResourceQuota with scopes bounds an amount of
    its own, see `TaskInfo.scoped`."""
    taken: Resources = field(default_factory=dict)
    """Usage by pods of jobs that the allocator does not decide on."""
    names: Mapping[str, str] = field(default_factory=dict)
    """By resource: the ResourceQuota that sets the bound; the other bounds are the allocator's."""
    barred: str = ""
    """Why this job is not allowed to start, however much is free; empty: it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """The facts about a job that policies decide on. Times in seconds, work in replica-seconds."""

    key: str
    """`<namespace>/<name>`."""
    tasks: tuple[TaskInfo, ...]
    preemptible: bool
    gang: bool = False
    """No replica runs before all can."""
    priority: int = 0
    """A higher number comes first."""
    age: float
    """Since its creation."""
    attained: float = 0.0
    """Replica-seconds that it has had so far."""
    restarts: int = 0
    """Number of restarts from a checkpoint because its learners changed."""
    model: GoodputModel | None = None
    """Model of its speed by the number of learners; None before its first report."""
    by_kind: Mapping[str, GoodputModel] = field(default_factory=dict)
    """The same on nodes of one kind, for the kinds on which it has measured itself."""
    collecting: Collecting | None = None
    """The rate of its collectors, where it has any and has reported it."""
    explored: int = 0
    """The most learners on which its model is based."""
    remaining: float | None = None
    """Samples of the initial batch still to be processed, if it reports that."""
    restoring: float = 0.0
    """Seconds that its learners take to continue from a checkpoint, by its report; 0: unknown."""
    unsaved: float = 0.0
    """Seconds of work since its last checkpoint, by its report."""
    ends: float | None = None
    """Seconds until its expected end at the latest; None: unknown."""
    longest: float | None = None
    """Seconds it runs at most, from its start; None: unlimited."""
    sweep: str = ""
    """UID of the sweep that it is a trial of; empty: of none."""
    account: Account | None = None
    """The bounds on the jobs of its namespace together; None: there are none."""

    @property
    def namespace(self) -> str:
        """Return the namespace in the key; empty if it has none."""
        return self.key.rpartition("/")[0]

    def model_on(self, kind: str) -> GoodputModel | None:
        """Return the model of its speed on a kind of node, if need be from another kind; None:
        unknown.
        """
        return self.by_kind.get(kind) or self.model or next(iter(self.by_kind.values()), None)

    @property
    def reports(self) -> bool:
        """Return whether it has reported its speed."""
        return self.model is not None or bool(self.by_kind)

    @property
    def scaled(self) -> TaskInfo:
        """Return the task whose size determines the job's speed, see `scaled_of`."""
        return scaled_of(self.tasks)

    @property
    def collectors(self) -> tuple[TaskInfo, ...]:
        """Return the tasks that feed the learners."""
        return tuple(task for task in self.tasks if task.type is TaskType.COLLECTOR)


def least(job: JobInfo, task: TaskInfo) -> int:
    """Return the fewest replicas of a task with which its job can start."""
    return task.replicas if job.gang or not job.preemptible else min(task.minimum, task.replicas)


@dataclass(frozen=True, slots=True)
class NodeList:
    """The nodes of a job's replicas, by task in the job's order, then by local index.

    Empty: the job waits.
    """

    tasks: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, nodes: Mapping[str, tuple[str, ...]]) -> NodeList:
        """Return it from task names to nodes; an answer without any node is the empty one."""
        return cls(tuple(nodes.items())) if any(nodes.values()) else cls()

    def __len__(self) -> int:
        return sum([len(nodes) for _, nodes in self.tasks])

    def __iter__(self) -> Iterator[str]:
        for _, nodes in self.tasks:
            yield from nodes

    def task(self, name: str) -> tuple[str, ...]:
        """Return the nodes of one task's replicas."""
        for task, nodes in self.tasks:
            if task == name:
                return nodes
        return ()


WAIT = NodeList()
