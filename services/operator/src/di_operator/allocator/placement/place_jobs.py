"""Placement of replicas once their numbers are known, with as few moved jobs as possible.

A job whose number has not changed keeps its nodes. The others follow from the largest to the
smallest. Each goes to the fullest node that takes it whole, an elastic group to one where members
of it can stay. A job that fits on no single node gets several without another such job, which
would compete for the network. Only if these do not suffice, it shares them. Where the capacity is
free but in pieces, strictly smaller jobs move out of the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import TaskInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    """The requested number of replicas of a job's task, and the nodes they have now."""

    key: str
    task: TaskInfo
    count: int
    current: tuple[str, ...] = ()
    movable: bool = True


@dataclass(slots=True)
class Placer:
    """The placement of replicas; `placed` has their nodes by job, by row of the free capacity."""

    capacity: FreeCapacity
    placed: dict[str, dict[int, int]] = field(default_factory=dict)
    spread: list[int] = field(init=False)
    """By node: how many jobs over several nodes use it."""
    _requests: dict[str, PlacementRequest] = field(default_factory=dict)
    _tenants: list[set[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.spread = [0] * len(self.capacity.nodes)
        self._tenants = [set() for _ in self.capacity.nodes]

    def place(self, requests: Iterable[PlacementRequest]) -> None:
        """Place all requests; one that does not fit is left out of `placed`."""
        rest = [each for each in requests if each.count > 0 and not self._keep(each)]
        # Jobs that share a node, now that those that stay are known: they are separated where that
        # fits.
        rest = [
            each
            for each in rest
            if len(each.current) != each.count
            or self._find(each)
            or not self._keep(each, shares=True)
        ]
        queue = [(*self._precedence(each), order, each) for order, each in enumerate(rest)]
        order = len(queue)
        heapify(queue)
        while queue:
            *_, request = heappop(queue)
            nodes = self._find(request)
            if nodes is None:
                for other in self._clear(request) or ():
                    heappush(queue, (*self._precedence(other), order, other))
                    order += 1
                self._put(request)
            else:
                self._settle(request, nodes)

    def place_beside(self, request: PlacementRequest) -> bool:
        """Place a request without a change of any other; return False if it does not fit."""
        return self._keep(request, shares=True) or self._put(request)

    def nodes(self, key: str) -> tuple[str, ...]:
        """Return the nodes of a job's replicas, in the order of the nodes; none if it was not
        placed.
        """
        return tuple(
            self.capacity.nodes[row].name
            for row, count in sorted(self.placed.get(key, {}).items())
            for _ in range(count)
        )

    def is_satisfied(self, request: PlacementRequest) -> bool:
        """Return whether a request is met, and without a move if its number did not change."""
        if not request.count:
            return True
        placed = self.nodes(request.key)
        stays = len(request.current) == request.count
        return sorted(placed) == sorted(request.current) if stays else bool(placed)

    def release(self, key: str) -> None:
        """Take a job out again."""
        self._release(key)

    def _release(self, key: str) -> tuple[PlacementRequest, dict[int, int]]:
        request, nodes = self._requests.pop(key), self.placed.pop(key)
        for row, count in nodes.items():
            self.capacity.take(request.task, row, -count)
            self._tenants[row].discard(key)
            self.spread[row] -= len(nodes) > 1
        return request, nodes

    def _keep(self, request: PlacementRequest, *, shares: bool = False) -> bool:
        if len(request.current) != request.count:
            return False
        nodes: dict[int, int] = {}
        for name in request.current:
            row = self.capacity.index.get(name)
            if row is None:
                return False
            nodes[row] = nodes.get(row, 0) + 1
        if not all(self.capacity.fits(request.task, row, count) for row, count in nodes.items()):
            return False
        if len(nodes) > 1 and not shares and any(self.spread[row] for row in nodes):
            return False
        self._settle(request, nodes)
        return True

    def _find(self, request: PlacementRequest, *, shares: bool = False) -> dict[int, int] | None:
        """Return nodes on which the request fits: one if possible, else as few as possible.

        `shares`: several nodes can include some that another job over several nodes uses.
        """
        slots, stay = self.capacity.slots(request.task), self._staying(request)
        enough = [free for free in slots if free >= request.count]
        if enough:
            held = [row for row in stay if slots[row] >= request.count]
            if held:
                return {max(held, key=lambda row: (stay[row], -slots[row], -row)): request.count}
            # Where it fits most tightly; of such nodes the first.
            return {slots.index(min(enough)): request.count}
        alone = [
            (free, row)
            for row, free in enumerate(slots)
            if free and (shares or not self.spread[row])
        ]
        if sum(free for free, _ in alone) < request.count or self._fits_whole(request):
            return None
        nodes: dict[int, int] = {}
        left = request.count
        alone.sort(key=lambda place: (-stay.get(place[1], 0), -place[0], place[1]))
        for free, row in alone:
            if free >= left:
                break
            nodes[row] = free
            left -= free
        # The last part goes where it fits most tightly.
        nodes[min(place for place in alone if place[0] >= left and place[1] not in nodes)[1]] = left
        return nodes

    def _put(self, request: PlacementRequest) -> bool:
        """Place a request where it fits, at last on nodes that it shares; return False if it does
        not.
        """
        nodes = self._find(request) or self._find(request, shares=True)
        if nodes is not None:
            self._settle(request, nodes)
        return nodes is not None

    def _staying(self, request: PlacementRequest) -> dict[int, int]:
        """Return how many members of an elastic group could stay on each node that it has.

        Members with the highest indexes end if it shrinks. No member of a group of fixed size
        stays.
        """
        if not request.task.elastic:
            return {}
        rows = (self.capacity.index.get(name) for name in request.current[: request.count])
        return Counter(row for row in rows if row is not None)

    def _fits_whole(self, request: PlacementRequest) -> bool:
        """Return whether a node would take the whole request if it were empty; then it is not
        spread.
        """
        return max(self.capacity.empty_slots(request.task), default=0) >= request.count

    def _clear(self, request: PlacementRequest) -> list[PlacementRequest] | None:
        """Evict strictly smaller jobs until the request fits; None, without a change, if it
        cannot.
        """
        whole = self.capacity.empty_slots(request.task)
        largest = max(whole, default=0)
        if largest == 0:
            return None
        evicted: list[tuple[PlacementRequest, dict[int, int]]] = []
        while self._find(request) is None:
            row = self._cheapest(request, min(request.count, largest), whole)
            if row is None:
                for other, nodes in evicted:
                    self._settle(other, nodes)
                return None
            # Sorted, since the order of a set differs from one process to the next.
            yielding = [key for key in sorted(self._tenants[row]) if self._yields(key, request)]
            evicted += [self._release(key) for key in yielding]
        return [other for other, _ in evicted]

    def _cheapest(self, request: PlacementRequest, count: int, whole: Sequence[int]) -> int | None:
        """Return the node that takes `count` at the cost of the fewest moved replicas."""
        best: tuple[int, int] | None = None
        for row, places in enumerate(whole):
            if places < count or (self.spread[row] and count < request.count):
                continue
            moving = [key for key in self._tenants[row] if self._yields(key, request)]
            if not moving:
                continue
            staying = sum(self.placed[key][row] for key in self._tenants[row] if key not in moving)
            if places - staying < count:
                continue
            cost = sum(self._requests[key].count for key in moving)
            if best is None or cost < best[0]:
                best = (cost, row)
        return None if best is None else best[1]

    def _yields(self, key: str, request: PlacementRequest) -> bool:
        other = self._requests[key]
        if not other.movable:
            return False
        mine, theirs = self.capacity.rows(request.task), self.capacity.rows(other.task)
        # A running job gets less before another one is moved for it.
        if mine < theirs and not request.current:
            return True
        # One order for all requests: otherwise two could move each other forever.
        comes_later = self._precedence(request) < self._precedence(other)
        is_smaller = other.count < request.count and len(self.placed[key]) == 1
        return comes_later and is_smaller

    def _precedence(self, request: PlacementRequest) -> tuple[int, int]:
        """Return the order of requests: those with the fewest usable nodes first, then the
        largest.
        """
        return len(self.capacity.rows(request.task)), -request.count

    def _settle(self, request: PlacementRequest, nodes: Mapping[int, int]) -> None:
        for row, count in nodes.items():
            self.capacity.take(request.task, row, count)
            self._tenants[row].add(request.key)
            self.spread[row] += len(nodes) > 1
        self.placed[request.key] = dict(nodes)
        self._requests[request.key] = request
