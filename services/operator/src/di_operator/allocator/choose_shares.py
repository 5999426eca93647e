"""Which size each job gets, when namespaces have shares of the budget.

Each namespace chooses among its own jobs from what it is entitled to; what is left of all is lent
to the best single steps of any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from di_operator.allocator.choose import Offer, choose, fill
from di_operator.allocator.entitlements import Claim, Shares, entitle
from di_operator.allocator.job import JobInfo


def choose_by_shares(
    offers: Sequence[Offer],
    jobs: Sequence[JobInfo],
    present: Sequence[int],
    budget: float,
    shares: Shares | None,
) -> list[int]:
    """Return the index of each job's size, as `choose` does; without shares it is `choose`.

    A namespace wants what `choose` would take for it if it were alone. `present` are the indices of
    the sizes that jobs have now, or of the next below. These stay as long as they are worth no less
    and give nobody less of its part: the parts are small, and in what is small more than one choice
    is nearly the best.
    """
    if shares is None:
        return choose(offers, budget)
    rows: dict[str, list[int]] = {}
    for row, job in enumerate(jobs):
        rows.setdefault(job.namespace, []).append(row)
    wanted = {
        namespace: _cost(offers, found, dict(zip(found, choose(own, budget), strict=True)))
        for namespace, found in rows.items()
        if (own := [offers[row] for row in found])
    }
    claims = [
        Claim(job=job, least=offer.costs[1] if len(offer.costs) > 1 else 0.0, holds=at > 0)
        for job, offer, at in zip(jobs, offers, present, strict=True)
    ]
    due = entitle(wanted, claims, shares, budget)
    chosen = [int(job.key in due.turns) for job in jobs]
    least = tuple(chosen)
    for namespace, found in rows.items():
        rest = [row for row in found if not chosen[row]]
        picked = choose([offers[row] for row in rest], due.rooms[namespace])
        for row, at in zip(rest, picked, strict=True):
            chosen[row] = at
    everybody = range(len(jobs))
    fill(offers, chosen, budget - _cost(offers, everybody, chosen))
    stays = (
        _cost(offers, everybody, present) <= budget
        and all(at >= turn for at, turn in zip(present, least, strict=True))
        and _value(offers, present) >= _value(offers, chosen)
        and all(
            _cost(offers, found, present) >= min(_cost(offers, found, chosen), due.rooms[namespace])
            for namespace, found in rows.items()
        )
    )
    return list(present) if stays else chosen


def _cost(
    offers: Sequence[Offer], rows: Iterable[int], chosen: Sequence[int] | Mapping[int, int]
) -> float:
    return sum(offers[row].costs[chosen[row]] for row in rows)


def _value(offers: Sequence[Offer], chosen: Sequence[int]) -> float:
    return sum(offer.values[at] for offer, at in zip(offers, chosen, strict=True))
