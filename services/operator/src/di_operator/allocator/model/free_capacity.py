"""The capacity that is free on the nodes while an answer is being made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from di_operator.allocator.model.job import JobInfo, NodeList, TaskInfo
from di_operator.allocator.model.node import Constraints, NodeInfo
from di_operator.allocator.model.resources import Resources

# More replicas of a task than any node has pods for.
_UNBOUNDED = 1_000_000


@dataclass(slots=True, kw_only=True)
class _Shape:
    """The tasks of equal requests and constraints, and their free capacity."""

    request: tuple[tuple[str, int], ...]
    admitted: Sequence[bool]
    """Which nodes admit such pods."""
    empty: list[int] | None = None
    """None: not computed yet. A caller that only asks whether something fits needs no such list."""
    per_node: int | None = None
    rows: frozenset[int] | None = None
    slots: list[int] | None = None
    seen: int = 0
    """Number of changes that `slots` has processed."""


class FreeCapacity:
    """The free capacity of each node, in thousandths of the base units."""

    def __init__(self, nodes: Mapping[str, NodeInfo]) -> None:
        self.nodes = tuple(nodes.values())
        self.kinds = tuple(sorted({node.kind for node in self.nodes})) or ("",)
        """The kinds of the nodes."""
        self.index = {node.name: row for row, node in enumerate(self.nodes)}
        self.free = [dict(node.free) for node in self.nodes]
        self._empty = [dict(free) for free in self.free]
        self._admitted: dict[Constraints, list[bool]] = {}
        self._shapes: dict[tuple[object, ...], _Shape] = {}
        # By identity; the task is kept beside, so that no other object can take its address.
        self._shape_of: dict[int, tuple[TaskInfo, _Shape]] = {}
        # Rows in the order in which they changed: a shape processes only the new ones.
        self._changes: list[int] = []

    def slots(self, task: TaskInfo) -> Sequence[int]:
        """Return how many replicas of the task fit on each node. Valid until the next change."""
        shape = self._shape(task)
        if shape.slots is None:
            shape.slots = [_places(shape, row, free) for row, free in enumerate(self.free)]
        else:
            for row in set(self._changes[shape.seen :]):
                shape.slots[row] = _places(shape, row, self.free[row])
        shape.seen = len(self._changes)
        return shape.slots

    def empty_slots(self, task: TaskInfo) -> Sequence[int]:
        """Return how many replicas would fit on each node without all that can move."""
        return self._empty_slots(self._shape(task))

    def rows(self, task: TaskInfo) -> frozenset[int]:
        """Return the nodes that would take a replica of the task without all that can move."""
        shape = self._shape(task)
        if shape.rows is None:
            places = self._empty_slots(shape)
            shape.rows = frozenset(row for row, free in enumerate(places) if free)
        return shape.rows

    def per_node(self, task: TaskInfo) -> int:
        """Return how many replicas an empty node of the most common size takes; 0: none."""
        shape = self._shape(task)
        if shape.per_node is None:
            common = Counter(places for places in self._empty_slots(shape) if places)
            # Of equally common ones the smaller, so that its multiples fit the other.
            shape.per_node = max(common, key=lambda places: (common[places], -places), default=0)
        return shape.per_node

    def on_kind(self, task: TaskInfo, kind: str) -> TaskInfo:
        """Return the task restricted to nodes of one kind; the task itself if all nodes are of
        that kind.
        """
        if len(self.kinds) == 1:
            return task
        return replace(task, constraints=replace(task.constraints, kind=kind))

    def are_of(self, names: Iterable[str], kind: str) -> bool:
        """Return whether the nodes are all of one kind; a deleted node is of none."""
        if len(self.kinds) == 1:
            return True
        rows = [self.index.get(name) for name in names]
        return all(row is not None and self.nodes[row].kind == kind for row in rows)

    def amount(self, resource: str, rows: Iterable[int]) -> int:
        """Return the free amount of a resource on some nodes together."""
        return sum([self.free[row].get(resource, 0) for row in rows])

    def settle(self) -> None:
        """Fix what is taken so far: only what is taken later counts as movable."""
        self._empty = [dict(free) for free in self.free]
        self._shapes.clear()
        self._shape_of.clear()

    def take(self, task: TaskInfo, row: int, count: int = 1) -> None:
        """Take the capacity of so many replicas; a negative count gives it back."""
        free = self.free[row]
        for name, amount in task.resources.items():
            free[name] = free.get(name, 0) - count * amount
        self._changes.append(row)

    def book(self, job: JobInfo, placed: NodeList, times: int = 1) -> None:
        """Take the capacity of a whole job, even if there is less; -1 gives it back."""
        for task in job.tasks:
            for name, count in tally(placed.task(task.name)).items():
                if (row := self.index.get(name)) is not None:
                    self.take(task, row, times * count)

    def fits(self, task: TaskInfo, row: int, count: int) -> bool:
        """Return whether so many replicas fit on a node that admits them."""
        shape = self._shape(task)
        if not shape.admitted[row]:
            return False
        free = self.free[row]
        return all(free.get(name, 0) >= count * amount for name, amount in shape.request)

    def take_all(self, job: JobInfo, placed: NodeList) -> bool:
        """Take the capacity of a whole job if every replica still fits in place, else nothing."""
        return self.take_parts(
            (task, name, count)
            for task in job.tasks
            for name, count in tally(placed.task(task.name)).items()
        )

    def take_parts(self, parts: Iterable[tuple[TaskInfo, str, int]]) -> bool:
        """Take the capacity of so many replicas of a task on each node, or nothing."""
        taken: list[tuple[TaskInfo, int, int]] = []
        for task, name, count in parts:
            row = self.index.get(name)
            if row is None or not self.fits(task, row, count):
                for earlier in taken:
                    self.take(earlier[0], earlier[1], -earlier[2])
                return False
            self.take(task, row, count)
            taken.append((task, row, count))
        return True

    def _shape(self, task: TaskInfo) -> _Shape:
        known = self._shape_of.get(id(task))
        if known is not None:
            return known[1]
        key = (tuple(sorted(task.resources.items())), task.constraints)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = self._make_shape(task.resources, task.constraints)
        self._shape_of[id(task)] = (task, shape)
        return shape

    def _make_shape(self, resources: Resources, constraints: Constraints) -> _Shape:
        if constraints not in self._admitted:
            self._admitted[constraints] = self._admit(constraints)
        return _Shape(
            request=tuple((name, amount) for name, amount in resources.items() if amount > 0),
            admitted=self._admitted[constraints],
        )

    def _admit(self, constraints: Constraints) -> list[bool]:
        found = constraints
        if found.selector or found.terms or found.barred or found.kind is not None:
            return [constraints.admit(node) for node in self.nodes]
        # Taints alone decide, and most nodes have the same ones. By identity: the nodes keep them
        # alive.
        by_taints: dict[int, bool] = {}
        for node in self.nodes:
            if id(node.taints) not in by_taints:
                by_taints[id(node.taints)] = constraints.admit(node)
        return [by_taints[id(node.taints)] for node in self.nodes]

    def _empty_slots(self, shape: _Shape) -> list[int]:
        if shape.empty is None:
            shape.empty = [_places(shape, row, free) for row, free in enumerate(self._empty)]
        return shape.empty


def tally(names: Iterable[str]) -> dict[str, int]:
    """Return how often each name occurs. It is several times as fast as a Counter, and a round
    makes some for each job.
    """
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return found


def _places(shape: _Shape, row: int, free: Resources) -> int:
    if not shape.admitted[row]:
        return 0
    places = _UNBOUNDED
    for name, amount in shape.request:
        found = free.get(name, 0) // amount
        places = min(places, found)
    return max(places, 0)
