"""Where replicas go once their numbers are known, moving as few jobs as possible.

A job whose number has not changed keeps its nodes. The others follow from the largest to the
smallest, each on the fullest node that takes it whole. A job that fits on no single node gets
several to itself: two such jobs never share a node, where they would compete for the network.
Where the room is there but in pieces, strictly smaller jobs move out of the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from di_operator.allocator.free_capacity import FreeCapacity
from di_operator.allocator.job import TaskInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """So many replicas of a task, and the nodes it has now."""

    key: str
    task: TaskInfo
    count: int
    current: tuple[str, ...] = ()
    movable: bool = True


@dataclass(slots=True)
class Packing:
    """An arrangement in the making; `placed` has the nodes by job, by row of the free capacity."""

    capacity: FreeCapacity
    placed: dict[str, dict[int, int]] = field(default_factory=dict)
    spread: list[int] = field(init=False)
    """How many jobs over several nodes there are on each node."""
    _wishes: dict[str, Wish] = field(default_factory=dict)
    _tenants: list[set[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.spread = [0] * len(self.capacity.nodes)
        self._tenants = [set() for _ in self.capacity.nodes]

    def pack(self, wishes: Iterable[Wish]) -> None:
        """Place all wishes; one that does not fit is left out of `placed`."""
        queue: list[tuple[int, int, Wish]] = []
        order = 0
        for wish in wishes:
            if wish.count <= 0 or self._keep(wish):
                continue
            heappush(queue, (-wish.count, order, wish))
            order += 1
        while queue:
            _, _, wish = heappop(queue)
            nodes = self._find(wish)
            if nodes is None:
                evicted = self._clear(wish)
                if evicted is None:
                    continue
                for other in evicted:
                    heappush(queue, (-other.count, order, other))
                    order += 1
                nodes = self._find(wish)
            if nodes is not None:
                self._settle(wish, nodes)

    def nodes(self, key: str) -> tuple[str, ...]:
        """The nodes of a job's replicas, in the order of the nodes; none if it was not placed."""
        return tuple(
            self.capacity.nodes[row].name
            for row, count in sorted(self.placed.get(key, {}).items())
            for _ in range(count)
        )

    def is_content(self, wish: Wish) -> bool:
        """Whether a wish came true, and without a move if its number did not change."""
        if not wish.count:
            return True
        placed = self.nodes(wish.key)
        stays = len(wish.current) == wish.count
        return sorted(placed) == sorted(wish.current) if stays else bool(placed)

    def release(self, key: str) -> None:
        """Take a job out again."""
        self._release(key)

    def _release(self, key: str) -> tuple[Wish, dict[int, int]]:
        wish, nodes = self._wishes.pop(key), self.placed.pop(key)
        for row, count in nodes.items():
            self.capacity.take(wish.task, row, -count)
            self._tenants[row].discard(key)
            self.spread[row] -= len(nodes) > 1
        return wish, nodes

    def _keep(self, wish: Wish) -> bool:
        if len(wish.current) != wish.count:
            return False
        nodes: dict[int, int] = {}
        for name in wish.current:
            row = self.capacity.index.get(name)
            if row is None:
                return False
            nodes[row] = nodes.get(row, 0) + 1
        if not all(self.capacity.fits(wish.task, row, count) for row, count in nodes.items()):
            return False
        if len(nodes) > 1 and any(self.spread[row] for row in nodes):
            return False
        self._settle(wish, nodes)
        return True

    def _find(self, wish: Wish) -> dict[int, int] | None:
        """Nodes with room for the wish: one if possible, else as few as possible."""
        slots = self.capacity.slots(wish.task)
        tight = min(
            ((free, row) for row, free in enumerate(slots) if free >= wish.count), default=None
        )
        if tight is not None:
            return {tight[1]: wish.count}
        alone = [(free, row) for row, free in enumerate(slots) if free and not self.spread[row]]
        if sum(free for free, _ in alone) < wish.count or self._fits_whole(wish):
            return None
        nodes: dict[int, int] = {}
        left = wish.count
        alone.sort(key=lambda place: (-place[0], place[1]))
        for free, row in alone:
            if free >= left:
                break
            nodes[row] = free
            left -= free
        # The last part goes where it fits most tightly.
        nodes[min(place for place in alone if place[0] >= left and place[1] not in nodes)[1]] = left
        return nodes

    def _fits_whole(self, wish: Wish) -> bool:
        """Whether some node would take the whole wish if it were empty; then it is not spread."""
        return max(self.capacity.empty_slots(wish.task), default=0) >= wish.count

    def _clear(self, wish: Wish) -> list[Wish] | None:
        """Take strictly smaller jobs off nodes until the wish fits; None, and no change, if not."""
        whole = self.capacity.empty_slots(wish.task)
        largest = max(whole, default=0)
        if largest == 0:
            return None
        evicted: list[tuple[Wish, dict[int, int]]] = []
        while self._find(wish) is None:
            row = self._cheapest(wish, min(wish.count, largest), whole)
            if row is None:
                for other, nodes in evicted:
                    self._settle(other, nodes)
                return None
            # Sorted, since the order of a set differs from one process to the next.
            yielding = [key for key in sorted(self._tenants[row]) if self._yields(key, wish)]
            evicted += [self._release(key) for key in yielding]
        return [other for other, _ in evicted]

    def _cheapest(self, wish: Wish, count: int, whole: Sequence[int]) -> int | None:
        """The node that takes `count` at the cost of the fewest replicas moved."""
        best: tuple[int, int] | None = None
        for row, places in enumerate(whole):
            if places < count or (self.spread[row] and count < wish.count):
                continue
            moving = [key for key in self._tenants[row] if self._yields(key, wish)]
            if not moving:
                continue
            staying = sum(self.placed[key][row] for key in self._tenants[row] if key not in moving)
            if places - staying < count:
                continue
            cost = sum(self._wishes[key].count for key in moving)
            if best is None or cost < best[0]:
                best = (cost, row)
        return None if best is None else best[1]

    def _yields(self, key: str, wish: Wish) -> bool:
        other = self._wishes[key]
        return other.movable and other.count < wish.count and len(self.placed[key]) == 1

    def _settle(self, wish: Wish, nodes: Mapping[int, int]) -> None:
        for row, count in nodes.items():
            self.capacity.take(wish.task, row, count)
            self._tenants[row].add(wish.key)
            self.spread[row] += len(nodes) > 1
        self.placed[wish.key] = dict(nodes)
        self._wishes[wish.key] = wish
