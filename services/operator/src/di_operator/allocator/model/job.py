"""A job as the allocator sees it, and the answer it gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from di_api.spec import TaskType
from di_operator.allocator.goodput.params import Collecting, GoodputModel
from di_operator.allocator.model.node import Constraints
from di_operator.allocator.model.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """One task of a job: `replicas` wanted, any number from `minimum` to `maximum` possible.

    `resources` are those of one replica, `pods` included. Here and in all that is decided each pod
    is a replica; of those that a DIJob calls so, `unit` pods each, whole ones are granted.
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
    """Its replicas are one process group whose members come and go while the others stay."""

    @property
    def varies(self) -> bool:
        """Whether the allocator may choose how many replicas it has."""
        return self.minimum < self.maximum

    @property
    def comes_and_goes(self) -> bool:
        """Whether its replicas may change while the rest of the job runs on."""
        return self.follows_learners or self.unit > 1 or self.elastic

    @property
    def is_one_group(self) -> bool:
        """Whether its replicas are the one group without which nothing of the job goes on."""
        return self.elastic or not self.comes_and_goes

    @property
    def follows_learners(self) -> bool:
        """Whether the learners decide how many of it are of use."""
        return self.type in (TaskType.COLLECTOR, TaskType.EVALUATOR)


def scaled_of(tasks: Sequence[TaskInfo]) -> TaskInfo:
    """The task whose size makes a job's speed: a learner, or any other, if need be a fixed one."""
    learners = [task for task in tasks if task.type is TaskType.LEARNER]
    # Whatever its learners are: a job of one that is fixed is as fast as that.
    among = learners or tasks
    return next((task for task in among if task.varies), among[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the jobs of a namespace may have together, and what it has besides; see `queues`.

    All jobs of a namespace have the same, but for what bars single ones.
    """

    guarantee: Resources = field(default_factory=dict)
    quota: Resources = field(default_factory=dict)
    """What is not named has none."""
    taken: Resources = field(default_factory=dict)
    """By pods of its jobs that the allocator does not decide on."""
    names: Mapping[str, str] = field(default_factory=dict)
    """By resource: the ResourceQuota that sets the quota; of the others it is the allocator's."""
    barred: str = ""
    """Why this job may not begin, whatever room there is; empty: it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """What a policy may know about a job. Times in seconds, work in replica-seconds."""

    key: str
    """`<namespace>/<name>`."""
    tasks: tuple[TaskInfo, ...]
    preemptible: bool
    gang: bool = False
    """Nothing of it runs before all of it can."""
    priority: int = 0
    """Higher goes first."""
    age: float
    """Since its creation."""
    attained: float = 0.0
    """Replica-seconds it has had so far."""
    restarts: int = 0
    """How often a change of its learners has made it begin anew from a checkpoint."""
    model: GoodputModel | None = None
    """How fast it is on how many learners; None as long as it has not reported."""
    by_kind: Mapping[str, GoodputModel] = field(default_factory=dict)
    """The same on nodes of one kind, of those kinds on which it has measured itself."""
    collecting: Collecting | None = None
    """What its collectors deliver, where it has any and has reported it."""
    explored: int = 0
    """The most learners its model is based on."""
    remaining: float | None = None
    """Samples of the initial batch still to be worked through, where the job says so."""
    restoring: float = 0.0
    """How long its learners take to go on from a checkpoint, as the job says; 0: it does not."""
    unsaved: float = 0.0
    """How many seconds of work it has done since its last checkpoint, by its report."""
    ends: float | None = None
    """In how many seconds it is expected to be complete at the latest; None: that is not known."""
    longest: float | None = None
    """How many seconds it runs at most, from its start; None: as long as it likes."""
    account: Account | None = None
    """What bounds the jobs of its namespace together; None: nothing does."""

    @property
    def namespace(self) -> str:
        """The part of the key that says whose it is; empty if it does not."""
        return self.key.rpartition("/")[0]

    def model_on(self, kind: str) -> GoodputModel | None:
        """What is known of its speed on a kind of node, if need be from another; None: nothing."""
        return self.by_kind.get(kind) or self.model or next(iter(self.by_kind.values()), None)

    @property
    def reports(self) -> bool:
        """Whether it has said how fast it is."""
        return self.model is not None or bool(self.by_kind)

    @property
    def scaled(self) -> TaskInfo:
        """The task whose size makes the job's speed, see `scaled_of`."""
        return scaled_of(self.tasks)

    @property
    def collectors(self) -> tuple[TaskInfo, ...]:
        """The tasks that feed the learners."""
        return tuple(task for task in self.tasks if task.type is TaskType.COLLECTOR)


def least(job: JobInfo, task: TaskInfo) -> int:
    """The fewest replicas of a task with which its job may begin."""
    return task.replicas if job.gang or not job.preemptible else min(task.minimum, task.replicas)


@dataclass(frozen=True, slots=True)
class NodeList:
    """The nodes of a job's replicas, by task in the job's order, then by local index.

    Empty: the job waits.
    """

    tasks: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, nodes: Mapping[str, tuple[str, ...]]) -> NodeList:
        """From task names to nodes; an answer without any node is the empty one."""
        return cls(tuple(nodes.items())) if any(nodes.values()) else cls()

    def __len__(self) -> int:
        return sum([len(nodes) for _, nodes in self.tasks])

    def __iter__(self) -> Iterator[str]:
        for _, nodes in self.tasks:
            yield from nodes

    def task(self, name: str) -> tuple[str, ...]:
        """The nodes of one task's replicas."""
        for task, nodes in self.tasks:
            if task == name:
                return nodes
        return ()


WAIT = NodeList()
