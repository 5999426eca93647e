"""Sizes of jobs that draw on one budget: separable concave maximisation.

Each job offers sizes, with a cost and a value each. Only the steps along the upper hull of its
points count; their slopes fall. So taking steps of all jobs by slope until the budget is used is
optimal up to the last step: the optimum of the linear relaxation is one fractional step away. The
rest of the budget goes to the best single steps that still fit. It takes O(n log n) in the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush


@dataclass(frozen=True, slots=True)
class Offer:
    """The sizes of one job: rising costs, the first of which is 0, and their values."""

    costs: Sequence[float]
    values: Sequence[float]


def choose(offers: Sequence[Offer], budget: float) -> list[int]:
    """Return the index of each job's size; their costs never exceed the budget together."""
    hulls = [upper_hull(offer) for offer in offers]
    steps = sorted(
        (-slope_of(offer, hull[i], hull[i + 1]), row, i)
        for row, (offer, hull) in enumerate(zip(offers, hulls, strict=True))
        for i in range(len(hull) - 1)
    )
    chosen = [hull[0] for hull in hulls]
    left = budget - sum(offer.costs[at] for offer, at in zip(offers, chosen, strict=True))
    for _, row, i in steps:
        offer, hull = offers[row], hulls[row]
        cost = offer.costs[hull[i + 1]] - offer.costs[hull[i]]
        # The prefix ends at the first step that does not fit. Later steps of other jobs may still
        # fit; `fill` chooses among these, off the hull as well.
        if chosen[row] != hull[i] or cost > left:
            break
        chosen[row] = hull[i + 1]
        left -= cost
    fill(offers, chosen, left)
    return chosen


def fill(offers: Sequence[Offer], chosen: list[int], left: float) -> None:
    """Take the steepest single steps that fit into what is left, until none does; in `chosen`."""
    heap = [step for row in range(len(offers)) if (step := _best(offers[row], row, chosen, left))]
    heapify(heap)
    while heap:
        _, row, target = heappop(heap)
        cost = offers[row].costs[target] - offers[row].costs[chosen[row]]
        if cost <= left:
            chosen[row] = target
            left -= cost
        if step := _best(offers[row], row, chosen, left):
            heappush(heap, step)


def _best(
    offer: Offer, row: int, chosen: Sequence[int], left: float
) -> tuple[float, int, int] | None:
    at = chosen[row]
    best: tuple[float, int, int] | None = None
    for target in range(at + 1, len(offer.costs)):
        if offer.costs[target] - offer.costs[at] > left:
            break
        slope = slope_of(offer, at, target)
        if slope > 0 and (best is None or -slope < best[0]):
            best = (-slope, row, target)
    return best


def upper_hull(offer: Offer) -> list[int]:
    """Return the indices of the upper hull from the first point to the highest value."""
    costs, values = offer.costs, offer.values
    hull: list[int] = [0]
    for at in range(1, len(costs)):
        if values[at] <= values[hull[-1]]:
            continue
        while len(hull) > 1:
            low, high = hull[-2], hull[-1]
            # The point between lies below the line from its neighbour to the new one. It is
            # multiplied out, since costs may be equal.
            if (values[high] - values[low]) * (costs[at] - costs[high]) > (
                values[at] - values[high]
            ) * (costs[high] - costs[low]):
                break
            hull.pop()
        hull.append(at)
    return hull


def slope_of(offer: Offer, low: int, high: int) -> float:
    """Return the gain of a step from one size to a larger one per unit of its cost."""
    cost = offer.costs[high] - offer.costs[low]
    gained = offer.values[high] - offer.values[low]
    return gained / cost if cost > 0 else float("inf") if gained > 0 else 0.0
