"""Sizes of jobs when sizes take several resources and namespaces have bounds.

It is like `choose`, whose budget is one number: steps of the upper hulls by slope, then the best
single steps that still fit. A step has to fit into each resource, each bound of nodes, and the
remaining quota of its namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from di_operator.allocator.model.job import JobInfo
from di_operator.allocator.sharing.fair_shares import Amounts, fits
from di_operator.allocator.sizing.choose import Offer, slope_of, upper_hull


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """The sizes that a job can have: a price for each, their values, and what each takes."""

    job: JobInfo
    offer: Offer
    takes: Sequence[Amounts]


class Budget:
    """The remaining capacity and quotas of namespaces. The capacity is by resource, and by the
    name of each bound of nodes.
    """

    def __init__(self, room: Amounts, quotas: Mapping[str, Amounts]) -> None:
        self.room = dict(room)
        self._quotas = {name: dict(quota) for name, quota in quotas.items()}

    def less(self, bids: Sequence[Bid], chosen: Sequence[int]) -> Budget:
        """Return the budget after these sizes are given."""
        found = Budget(self.room, self._quotas)
        for bid, at in zip(bids, chosen, strict=True):
            found.take(bid, 0, at)
        return found

    def of_room(self, room: Amounts) -> Budget:
        """Return the same quotas with another capacity."""
        return Budget(room, self._quotas)

    def holds(self, bids: Sequence[Bid], chosen: Sequence[int]) -> bool:
        """Return whether these sizes fit."""
        left = self.less(bids, chosen)
        return all(
            amount >= 0 for each in (left.room, *left._quotas.values()) for amount in each.values()
        )

    def within_quota(self, bid: Bid, low: int, high: int) -> bool:
        """Return whether the quota of a job's namespace allows a step to a larger size."""
        quota = self._quotas.get(bid.job.namespace)
        return quota is None or fits(_more(bid, low, high, quota), quota)

    def within_room(self, bid: Bid, low: int, high: int) -> bool:
        """Return whether enough capacity is left for a step."""
        return fits(_more(bid, low, high, self.room), self.room)

    def exceeded(self, bid: Bid, low: int, high: int) -> set[str]:
        """Return the parts of the capacity that a step would exceed."""
        more = _more(bid, low, high, self.room)
        return {name for name, left in self.room.items() if not fits(more, {name: left})}

    def take(self, bid: Bid, low: int, high: int) -> None:
        """Take what a job needs to grow from a size to another."""
        for left in (self.room, self._quotas.get(bid.job.namespace, {})):
            for name, amount in _more(bid, low, high, left).items():
                left[name] -= amount


def choose_bids(bids: Sequence[Bid], budget: Budget) -> list[int]:
    """Return the index of each job's size; what they take is taken from the budget."""
    hulls = [upper_hull(bid.offer) for bid in bids]
    steps = sorted(
        (-slope_of(bid.offer, hull[i], hull[i + 1]), row, i)
        for row, (bid, hull) in enumerate(zip(bids, hulls, strict=True))
        for i in range(len(hull) - 1)
    )
    chosen = [hull[0] for hull in hulls]
    used_up: set[str] = set()
    for _, row, i in steps:
        bid, low, high = bids[row], hulls[row][i], hulls[row][i + 1]
        # A namespace at its bound does not stop others.
        if chosen[row] != low or not budget.within_quota(bid, low, high):
            continue
        # A part of the capacity that is used up does not stop steps that take nothing of it.
        if any(more > 0 for more in _more(bid, low, high, used_up).values()):
            continue
        if exceeded := budget.exceeded(bid, low, high):
            used_up |= exceeded
            continue
        budget.take(bid, low, high)
        chosen[row] = high
    fill_bids(bids, chosen, budget)
    return chosen


def fill_bids(bids: Sequence[Bid], chosen: list[int], budget: Budget) -> None:
    """Take the steepest single steps that fit into what is left, until none does; in `chosen`."""
    heap = list(_steps(bids, range(len(bids)), chosen, budget))
    heapify(heap)
    while heap:
        _, row, target = heappop(heap)
        if budget.within_quota(bids[row], chosen[row], target) and budget.within_room(
            bids[row], chosen[row], target
        ):
            budget.take(bids[row], chosen[row], target)
            chosen[row] = target
        for step in _steps(bids, (row,), chosen, budget):
            heappush(heap, step)


def _steps(
    bids: Sequence[Bid], rows: Iterable[int], chosen: Sequence[int], budget: Budget
) -> Iterable[tuple[float, int, int]]:
    """Return the steepest step of each of these that fits."""
    for row in rows:
        bid, at = bids[row], chosen[row]
        found = [
            (-slope, row, target)
            for target in range(at + 1, len(bid.takes))
            if (slope := slope_of(bid.offer, at, target)) > 0
            and budget.within_quota(bid, at, target)
            and budget.within_room(bid, at, target)
        ]
        if found:
            yield min(found, key=lambda step: step[0])


def _more(bid: Bid, low: int, high: int, names: Iterable[str]) -> dict[str, float]:
    before, after = bid.takes[low], bid.takes[high]
    return {name: after.get(name, 0) - before.get(name, 0) for name in names}
