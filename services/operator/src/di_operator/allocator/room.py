"""The room that is left on the nodes while an answer is being made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from di_operator.allocator.job import JobInfo, NodeList, TaskInfo
from di_operator.allocator.node import Constraints, NodeInfo

Counts = NDArray[np.int64]
# More replicas of a task than any node has pods for.
_UNBOUNDED = np.int64(1_000_000)


@dataclass(slots=True, kw_only=True)
class _Kind:
    """All that tasks of equal requests and constraints have in common."""

    request: Counts
    needed: NDArray[np.intp]
    """Columns of what is requested at all."""
    mask: NDArray[np.bool_] | None
    """Which nodes admit such pods; None: all of them."""
    empty: Counts | None = None
    per_node: int | None = None
    slots: Counts | None = None
    seen: int = 0
    """How many changes of the room `slots` has taken in."""


class Room:
    """What is free on each node, as a table of nodes by resources, in thousandths."""

    def __init__(self, nodes: Mapping[str, NodeInfo], jobs: Iterable[JobInfo]) -> None:
        self.nodes = tuple(nodes.values())
        self.index = {node.name: row for row, node in enumerate(self.nodes)}
        tasks = [task for job in jobs for task in job.tasks]
        self.resources = sorted({name for task in tasks for name in task.resources})
        self._column = {name: column for column, name in enumerate(self.resources)}
        self.total = self._table([node.total for node in self.nodes])
        self.free = self._table([node.free for node in self.nodes])
        self._empty = self.free.copy()
        self._masks: dict[Constraints, NDArray[np.bool_] | None] = {}
        self._kinds: dict[tuple[object, ...], _Kind] = {}
        # By identity; the task is kept beside, so that no other can take its address.
        self._kind_of: dict[int, tuple[TaskInfo, _Kind]] = {}
        # Rows in the order in which they changed: a kind looks at what is new to it.
        self._changes: list[int] = []

    def request(self, task: TaskInfo) -> Counts:
        """What one replica of the task takes, by resource."""
        return self._kind(task).request

    def slots(self, task: TaskInfo) -> Counts:
        """How many replicas of the task each node has room for. Not to be modified."""
        kind = self._kind(task)
        changed = self._changes[kind.seen :]
        if kind.slots is None or len(changed) > len(self.nodes) // 4:
            kind.slots = self._count(kind, self.free)
        elif changed:
            rows = np.unique(changed)
            kind.slots[rows] = self._count(kind, self.free, rows)
        kind.seen = len(self._changes)
        return kind.slots

    def empty_slots(self, task: TaskInfo) -> Counts:
        """How many replicas each node had room for if all that can move were gone."""
        kind = self._kind(task)
        if kind.empty is None:
            kind.empty = self._count(kind, self._empty)
        return kind.empty

    def per_node(self, task: TaskInfo) -> int:
        """How many replicas the most common kind of node takes when it is empty; 0: none does."""
        kind = self._kind(task)
        if kind.per_node is None:
            places = self.empty_slots(task)
            kind.per_node = int(np.bincount(places[places > 0], minlength=1).argmax())
        return kind.per_node

    def settle(self) -> None:
        """What is taken now stays taken: only what comes after it counts as movable."""
        self._empty = self.free.copy()
        for kind in self._kinds.values():
            kind.empty = kind.per_node = None

    def take(self, task: TaskInfo, node: int, count: int = 1) -> None:
        """Use the room of so many replicas; a negative count gives it back."""
        self.free[node] -= count * self._kind(task).request
        self._changes.append(node)

    def fits(self, task: TaskInfo, node: int, count: int) -> bool:
        """Whether a node has room for so many replicas and admits them."""
        kind = self._kind(task)
        if kind.mask is not None and not kind.mask[node]:
            return False
        return bool((self.free[node] >= count * kind.request)[kind.needed].all())

    def take_all(self, job: JobInfo, placed: NodeList) -> bool:
        """Use the room of a whole job if every replica still fits where it is, else nothing."""
        taken: list[tuple[TaskInfo, int, int]] = []
        for task in job.tasks:
            for name, count in Counter(placed.task(task.name)).items():
                node = self.index.get(name)
                if node is None or not self.fits(task, node, count):
                    for earlier in taken:
                        self.take(earlier[0], earlier[1], -earlier[2])
                    return False
                self.take(task, node, count)
                taken.append((task, node, count))
        return True

    def _kind(self, task: TaskInfo) -> _Kind:
        known = self._kind_of.get(id(task))
        if known is not None:
            return known[1]
        key = (tuple(sorted(task.resources.items())), task.constraints)
        kind = self._kinds.get(key)
        if kind is None:
            request = np.zeros(len(self.resources), dtype=np.int64)
            for name, amount in task.resources.items():
                request[self._column[name]] = amount
            kind = self._kinds[key] = _Kind(
                request=request,
                needed=np.flatnonzero(request > 0),
                mask=self._mask(task.constraints),
            )
        self._kind_of[id(task)] = (task, kind)
        return kind

    def _count(self, kind: _Kind, free: Counts, rows: NDArray[np.intp] | None = None) -> Counts:
        table = free if rows is None else free[rows]
        counts: Counts
        if len(kind.needed):
            counts = np.maximum(table[:, kind.needed] // kind.request[kind.needed], 0)
            counts = counts.min(axis=1, initial=_UNBOUNDED)
        else:
            counts = np.full(len(table), _UNBOUNDED)
        if kind.mask is not None:
            counts = np.where(kind.mask if rows is None else kind.mask[rows], counts, 0)
        return counts

    def _mask(self, constraints: Constraints) -> NDArray[np.bool_] | None:
        if constraints not in self._masks:
            mask = np.array([constraints.admit(node) for node in self.nodes], dtype=bool)
            self._masks[constraints] = None if mask.all() else mask
        return self._masks[constraints]

    def _table(self, amounts: Iterable[Mapping[str, int]]) -> Counts:
        rows = [[amount.get(name, 0) for name in self.resources] for amount in amounts]
        return np.array(rows, dtype=np.int64).reshape(len(self.nodes), len(self.resources))
