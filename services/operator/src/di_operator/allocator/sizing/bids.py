"""What the jobs of `goodput` bid for, where namespaces have shares or quotas."""

from __future__ import annotations

from collections.abc import Sequence

from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import JobInfo
from di_operator.allocator.model.resources import total
from di_operator.allocator.sharing.fair_shares import Amounts, Shares
from di_operator.allocator.sizing.choose import Offer
from di_operator.allocator.sizing.choose_bids import Bid
from di_operator.allocator.sizing.demand import Demand, Option


def measured_room(
    demands: Sequence[Demand], capacity: FreeCapacity, scarce: str, shares: Shares | None
) -> dict[str, float]:
    """What there is of the resources that are divided: of the scarcest, or of all asked for."""
    names = {scarce}
    if shares is not None and shares.dominant:
        names = {
            name
            for demand in demands
            for task in demand.job.tasks
            for name, amount in task.resources.items()
            if amount
        }
    free = total(capacity.free)
    return {name: float(free.get(name, 0)) for name in sorted(names)}


def make_bids(
    demands: Sequence[Demand],
    options: Sequence[Option],
    offers: Sequence[Offer],
    room: Amounts,
    shares: Shares | None,
) -> list[Bid]:
    """The sizes on offer, at the price that shares are measured by: with dominant ones, the part
    of what there is that a size takes most of."""
    is_dominant = shares is not None and shares.dominant
    return [
        _bid(demand.job, option, offer, room if is_dominant else None)
        for demand, option, offer in zip(demands, options, offers, strict=True)
    ]


def _bid(job: JobInfo, option: Option, offer: Offer, dominant: Amounts | None) -> Bid:
    takes = option.takes(job)[: option.offered]
    if dominant is None:
        return Bid(job=job, offer=offer, takes=takes)
    prices = [
        max(size.get(name, 0.0) / max(amount, 1.0) for name, amount in dominant.items())
        for size in takes
    ]
    return Bid(job=job, offer=Offer(prices, offer.values), takes=takes)
