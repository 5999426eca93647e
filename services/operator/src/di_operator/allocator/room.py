"""The room that is left on the nodes while an answer is being made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from di_operator.allocator.job import JobInfo, NodeList, TaskInfo
from di_operator.allocator.node import Constraints, NodeInfo

Counts = NDArray[np.int64]
# More replicas of a task than any node has pods for.
_UNBOUNDED = np.int64(1_000_000)


class Room:
    """What is free on each node, as a table of nodes by resources, in thousandths."""

    def __init__(self, nodes: Mapping[str, NodeInfo], jobs: Iterable[JobInfo]) -> None:
        self.nodes = tuple(nodes.values())
        self.index = {node.name: row for row, node in enumerate(self.nodes)}
        self.resources = sorted(
            {name for job in jobs for task in job.tasks for name in task.resources}
        )
        self._column = {name: column for column, name in enumerate(self.resources)}
        self.total = self._table([node.total for node in self.nodes])
        self.free = self._table([node.free for node in self.nodes])
        self._empty = self.free.copy()
        self._masks: dict[Constraints, NDArray[np.bool_] | None] = {}
        # By identity; the task is kept beside, so that no other can take its address.
        self._requests: dict[int, tuple[TaskInfo, Counts]] = {}

    def request(self, task: TaskInfo) -> Counts:
        """What one replica of the task takes, by resource."""
        known = self._requests.get(id(task))
        if known is not None:
            return known[1]
        request = np.zeros(len(self.resources), dtype=np.int64)
        for name, amount in task.resources.items():
            request[self._column[name]] = amount
        self._requests[id(task)] = (task, request)
        return request

    def slots(self, task: TaskInfo, *, empty: bool = False) -> Counts:
        """How many replicas of the task each node has room for; `empty`: all movable jobs gone."""
        request = self.request(task)
        needed = request > 0
        room = (self._empty if empty else self.free)[:, needed]
        if not needed.any():
            counts = np.full(len(self.nodes), _UNBOUNDED)
        else:
            counts = np.maximum(room // request[needed], 0).min(axis=1, initial=_UNBOUNDED)
        mask = self._mask(task.constraints)
        return counts if mask is None else np.where(mask, counts, 0)

    def settle(self) -> None:
        """What is taken now stays taken: only what comes after it counts as movable."""
        self._empty = self.free.copy()

    def take(self, task: TaskInfo, node: int, count: int = 1) -> None:
        """Use the room of so many replicas; a negative count gives it back."""
        self.free[node] -= count * self.request(task)

    def take_all(self, job: JobInfo, placed: NodeList) -> bool:
        """Use the room of a whole job if every replica still fits where it is, else nothing."""
        taken: list[tuple[TaskInfo, int, int]] = []
        for task in job.tasks:
            for name, count in Counter(placed.task(task.name)).items():
                node = self.index.get(name)
                if node is None or not self._fits(task, node, count):
                    for earlier in taken:
                        self.take(earlier[0], earlier[1], -earlier[2])
                    return False
                self.take(task, node, count)
                taken.append((task, node, count))
        return True

    def give_all(self, job: JobInfo, placed: NodeList) -> None:
        """Give back the room of a whole job."""
        for task in job.tasks:
            for name, count in Counter(placed.task(task.name)).items():
                self.take(task, self.index[name], -count)

    def _fits(self, task: TaskInfo, node: int, count: int) -> bool:
        mask = self._mask(task.constraints)
        if mask is not None and not mask[node]:
            return False
        request = self.request(task)
        return bool((self.free[node] >= count * request)[request > 0].all())

    def _mask(self, constraints: Constraints) -> NDArray[np.bool_] | None:
        """Which nodes admit such a pod; None: all of them."""
        if constraints not in self._masks:
            mask = np.array([constraints.admit(node) for node in self.nodes], dtype=bool)
            self._masks[constraints] = None if mask.all() else mask
        return self._masks[constraints]

    def _table(self, amounts: Iterable[Mapping[str, int]]) -> Counts:
        rows = [[amount.get(name, 0) for name in self.resources] for amount in amounts]
        return np.array(rows, dtype=np.int64).reshape(len(self.nodes), len(self.resources))
