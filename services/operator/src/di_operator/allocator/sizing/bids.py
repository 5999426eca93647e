"""Bids of jobs under `goodput`, where namespaces have shares or quotas."""

from __future__ import annotations

from collections.abc import Sequence

from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import JobInfo
from di_operator.allocator.model.resources import total
from di_operator.allocator.sharing.fair_shares import Amounts, Shares
from di_operator.allocator.sizing.choose import Offer
from di_operator.allocator.sizing.choose_bids import Bid
from di_operator.allocator.sizing.demand import Demand, Option
from di_operator.allocator.sizing.pools import Pool


def measured_room(
    pool: Pool, capacity: FreeCapacity, scarce: str, shares: Shares | None
) -> dict[str, float]:
    """Return a pool's amounts of the resources that are divided: of the scarcest, or of all
    requested.
    """
    names = {scarce}
    if shares is not None and shares.dominant:
        names = {
            name
            for demand in pool.demands
            for task in demand.job.tasks
            for name, amount in task.resources.items()
            if amount
        }
    free = total([capacity.free[row] for row in pool.rows])
    return {name: float(free.get(name, 0)) for name in sorted(names)}


def make_bids(
    demands: Sequence[Demand],
    options: Sequence[Option],
    offers: Sequence[Offer],
    room: Amounts,
    shares: Shares | None,
    *,
    draws: Sequence[tuple[str, ...]] = (),
) -> list[Bid]:
    """Return the bids of jobs for their offered sizes, at the price in which shares are measured.

    With dominant shares the price is the largest part of any resource that a size takes. A size
    takes its cost of each bound that it `draws` on.
    """
    is_dominant = shares is not None and shares.dominant
    return [
        _bid(demand.job, option, offer, room if is_dominant else None, names)
        for demand, option, offer, names in zip(
            demands, options, offers, draws or [()] * len(demands), strict=True
        )
    ]


def _bid(
    job: JobInfo, option: Option, offer: Offer, dominant: Amounts | None, draws: tuple[str, ...]
) -> Bid:
    takes = [
        size | dict.fromkeys(draws, cost)
        for size, cost in zip(option.takes(job)[: option.offered], offer.costs, strict=True)
    ]
    if dominant is None:
        return Bid(job=job, offer=offer, takes=takes)
    prices = [
        max(size.get(name, 0.0) / max(amount, 1.0) for name, amount in dominant.items())
        for size in takes
    ]
    return Bid(job=job, offer=Offer(prices, offer.values), takes=takes)
