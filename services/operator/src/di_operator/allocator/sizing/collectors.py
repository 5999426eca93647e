"""The tasks that follow a job's learners: collectors come and go without a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from di_api.spec import TaskType
from di_operator.allocator.admission.in_order import give_back, tightest
from di_operator.allocator.goodput.collecting import knee, throughput
from di_operator.allocator.goodput.model import goodput
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import JobInfo, NodeList, TaskInfo
from di_operator.allocator.sharing.quotas import Allowance


@dataclass(slots=True, kw_only=True)
class JobPlacement:
    """A job whose learners are placed, and the rows of its other replicas by task."""

    job: JobInfo
    learners: tuple[str, ...]
    had: NodeList
    speed: float
    """Samples per second of the learners where they are; 0 while unknown."""
    rows: dict[str, list[int]] = field(default_factory=dict)

    def add(self, capacity: FreeCapacity, task: TaskInfo) -> bool:
        """Place one more unit of replicas, or nothing of it."""
        mine = self.rows.setdefault(task.name, [])
        begun = len(mine)
        while len(mine) < begun + task.unit:
            if not self._add_one(capacity, task, mine):
                give_back(capacity, task, mine, begun)
                return False
        return True

    def _add_one(self, capacity: FreeCapacity, task: TaskInfo, mine: list[int]) -> bool:
        """Place a replica where the job has one already if possible, else tightly."""
        slots = capacity.slots(task)
        if not any(slots):
            return False
        kept = [
            row
            for name in self.had.task(task.name)
            if (row := capacity.index.get(name)) is not None and slots[row] > 0
        ]
        # As often as it had replicas there: beyond that, a present node has no advantage.
        row = next((row for row in kept if mine.count(row) < kept.count(row)), None)
        row = tightest(capacity, task, slots) if row is None else row
        capacity.take(task, row)
        mine.append(row)
        return True

    def count(self, task: TaskInfo) -> int:
        """Return the number of replicas of a task other than the learners' so far."""
        return len(self.rows.get(task.name, ()))

    def node_list(self, capacity: FreeCapacity) -> NodeList:
        """Return the whole job's nodes, tasks in the job's order."""
        return NodeList.of(
            {
                task.name: self.learners
                if task is self.job.scaled
                else tuple(capacity.nodes[row].name for row in sorted(self.rows.get(task.name, ())))
                for task in self.job.tasks
            }
        )


def place_others(
    capacity: FreeCapacity, job: JobInfo, learners: tuple[str, ...], had: NodeList
) -> JobPlacement | None:
    """Place the minimum of every other task beside the learners; None, and no change, if not."""
    # The learners are on nodes of one kind.
    model = job.model_on(capacity.nodes[capacity.index[learners[0]]].kind)
    speed = goodput(model, len(set(learners)), len(learners)) if model is not None else 0.0
    placement = JobPlacement(job=job, learners=learners, had=had, speed=speed)
    for task in job.tasks:
        if task is job.scaled:
            continue
        for _ in range(0, task.minimum, task.unit):
            if not placement.add(capacity, task):
                for other in job.tasks:
                    for row in placement.rows.get(other.name, ()):
                        capacity.take(other, row, -1)
                return None
    return placement


def add_collectors(
    capacity: FreeCapacity, placements: Sequence[JobPlacement], allowance: Allowance
) -> None:
    """Grow the other tasks while that is useful, the most useful replica first, within the quota
    of their namespace.
    """
    for placement in placements:
        if placement.job.account is not None:
            allowance.take(placement.job, placement.node_list(capacity))
    heap = [
        (-gain, order, index)
        for order, placement in enumerate(placements)
        for index, task in enumerate(placement.job.tasks)
        if task is not placement.job.scaled and (gain := _gain(placement, task)) > 0
    ]
    heapify(heap)
    while heap:
        before, order, index = heap[0]
        placement = placements[order]
        task = placement.job.tasks[index]
        gain = _gain(placement, task)
        # The gain may have fallen since another collector task grew; then it is queued again.
        if -gain == before:
            gain = _gain(placement, task) if _add(capacity, placement, task, allowance) else 0.0
        if gain > 0:
            heapreplace(heap, (-gain, order, index))
        else:
            heappop(heap)


def _add(
    capacity: FreeCapacity, placement: JobPlacement, task: TaskInfo, allowance: Allowance
) -> bool:
    if not allowance.has_room(placement.job, task, task.unit):
        return False
    if not placement.add(capacity, task):
        return False
    allowance.take_replicas(placement.job, task, task.unit)
    return True


def _gain(placement: JobPlacement, task: TaskInfo) -> float:
    """Return the relative gain in the job's throughput by one more replica; 0: not wanted."""
    job, have = placement.job, placement.count(task)
    if have >= task.maximum:
        return 0.0
    if task.type is not TaskType.COLLECTOR or job.collecting is None:
        # Only the number that the owner wants is known, not its use.
        return 1.0 / (have + 1) if have < task.replicas else 0.0
    speed, collectors = placement.speed, sum(map(placement.count, job.collectors))
    if collectors >= knee(job.collecting, speed):
        return 0.0
    now, more = (
        throughput(job.collecting, speed, count) for count in (collectors, collectors + task.unit)
    )
    # Learners without any throughput get no collectors.
    return (more - now) / more / task.unit if more > 0 else 0.0
