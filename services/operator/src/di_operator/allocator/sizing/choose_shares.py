"""Sizes of jobs when namespaces have shares of the capacity, or quotas.

Each namespace chooses among its own jobs within its entitlement. The unused rest is lent to the
best single steps of any job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from di_operator.allocator.sharing.fair_shares import (
    Amounts,
    Claim,
    Shares,
    entitle,
    fits,
    total_of,
)
from di_operator.allocator.sizing.choose_bids import Bid, Budget, choose_bids, fill_bids


def choose_by_shares(
    bids: Sequence[Bid],
    present: Sequence[int],
    room: Amounts,
    shares: Shares | None,
    quotas: Mapping[str, Amounts],
    *,
    bounds: Amounts,
) -> list[int]:
    """Return the index of each job's size, as `choose` does.

    A namespace wants what it would take if it were alone. `present` are the indices of the sizes
    that jobs have now, or of the next below. These stay as long as they are worth no less and
    reduce no namespace's share. Without this rule sizes would alternate, because small shares have
    several choices that are nearly the best.

    Args:
        bids: the jobs in the order of their precedence.
        present: see above.
        room: what is available, of the resources in which shares are measured.
        shares: of namespaces; None: they have none.
        quotas: by namespace, what its jobs can have together.
        bounds: what is available on some of the nodes, for jobs that can use no other.
    """
    whole = Budget({**room, **bounds}, quotas)
    if shares is None:
        return choose_bids(bids, whole)
    rows: dict[str, list[int]] = {}
    for row, bid in enumerate(bids):
        rows.setdefault(bid.job.namespace, []).append(row)
    wanted: dict[str, Amounts] = {}
    for namespace, found in rows.items():
        own = [bids[row] for row in found]
        wanted[namespace] = _takes(own, choose_bids(own, Budget({**room, **bounds}, quotas)), room)
    claims = [
        Claim(job=bid.job, least=bid.takes[1] if len(bid.takes) > 1 else {}, holds=at > 0)
        for bid, at in zip(bids, present, strict=True)
    ]
    due = entitle(wanted, claims, shares, room)
    chosen = [int(bid.job.key in due.turns and whole.within_quota(bid, 0, 1)) for bid in bids]
    least = tuple(chosen)
    for namespace, found in rows.items():
        beside = whole.less(bids, chosen)
        left = {name: beside.room[name] for name in bounds}
        rest = [row for row in found if not chosen[row]]
        own = [bids[row] for row in rest]
        picked = choose_bids(own, beside.of_room({**due.rooms[namespace], **left}))
        for row, at in zip(rest, picked, strict=True):
            chosen[row] = at
    fill_bids(bids, chosen, whole.less(bids, chosen))
    stays = (
        whole.holds(bids, present)
        and all(at >= turn for at, turn in zip(present, least, strict=True))
        and _value(bids, present) >= _value(bids, chosen)
        and all(
            _gives_no_less(bids, found, present, chosen, due.rooms[namespace])
            for namespace, found in rows.items()
        )
    )
    return list(present) if stays else chosen


def _gives_no_less(
    bids: Sequence[Bid],
    rows: Sequence[int],
    present: Sequence[int],
    chosen: Sequence[int],
    part: Amounts,
) -> bool:
    """Return whether a namespace already has what it would have of its share."""
    own = [bids[row] for row in rows]
    has, would = (_takes(own, [sizes[row] for row in rows], part) for sizes in (present, chosen))
    return fits({name: min(amount, part[name]) for name, amount in would.items()}, has)


def _takes(bids: Sequence[Bid], chosen: Sequence[int], names: Amounts) -> dict[str, float]:
    taken = total_of([bid.takes[at] for bid, at in zip(bids, chosen, strict=True)])
    return {name: taken.get(name, 0.0) for name in names}


def _value(bids: Sequence[Bid], chosen: Sequence[int]) -> float:
    return sum(bid.offer.values[at] for bid, at in zip(bids, chosen, strict=True))
