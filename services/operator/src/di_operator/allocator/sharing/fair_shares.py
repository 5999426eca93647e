"""Entitlements of namespaces to the capacity of preemptible jobs, by weights. Pure.

A share is one of the scarcest resource, which would be used up first if all got what they ask for.
A resource that is not scarce has no price, and water filling is the only fair division of a single
one. Or it is a dominant share (`dominant`): the largest part that a namespace has of any resource.
That is fairer to tenants that want different resources.

A namespace is entitled to what it wants, or to its weighted part of the capacity if that is less.
The unused rest is divided again by the weights of those that want more. A guarantee comes first.

Jobs have sizes, so exact shares are impossible. A namespace that wants more is below its
entitlement by less than one step of a job's size. A job whose least size exceeds the entitlement
of its namespace would never run beside busy tenants. Such jobs take turns (ageing): in every other
turn of so many seconds of its age a job is entitled to its least size. Its namespace then exceeds
its share by that, and is entitled to nothing else. If two are due at once and do not fit together,
the one that has waited longer comes first. No turn takes what others are guaranteed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from di_operator.allocator.model.job import JobInfo
from di_operator.allocator.model.resources import Resources, scarcest
from di_operator.allocator.sharing.dominant_shares import fill_dominant
from di_operator.allocator.sharing.queues import NO_QUEUES, Queues

Amounts = Mapping[str, float]
"""By resource; 0 of one that is not named."""

DEFAULT_SHARE: Final = 1.0
DEFAULT_AGEING: Final = 3600.0
EXACT: Final = 1 + 1e-9
"""Tolerance by which a computed amount can be below the exact one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The weights of namespaces, that of all others, and the seconds of a turn of ageing.

    `dominant`: shares are dominant ones, not of the scarcest resource.
    """

    weights: Mapping[str, float]
    default: float
    ageing: float
    dominant: bool = False

    def of(self, namespace: str) -> float:
        """Return the weight of a namespace."""
        return self.weights.get(namespace, self.default)

    def measured(self, wanted: Resources, free: Resources) -> dict[str, int]:
        """Return the free resources in which shares are measured.

        Args:
            wanted: the sum of what all want.
            free: what is available to them.
        """
        names = sorted(wanted) if self.dominant else [scarcest(wanted, free)]
        return {name: free.get(name, 0) for name in names}


def read_shares(
    shares: Mapping[str, float] | None,
    default_share: float,
    ageing_seconds: float,
    queues: Queues = NO_QUEUES,
) -> Shares | None:
    """Return the shares given by a policy's arguments; None: namespaces have no shares.

    Queues with a weight or a guarantee make shares dominant ones; with quotas alone there are no
    shares. Raises ValueError for a weight or time that is not a number above 0, or both forms of
    weights.
    """
    if shares is not None and not isinstance(shares, Mapping):
        raise ValueError(f"shares: {shares!r}: must map namespaces to weights")
    numbers = {f"shares: {name}": weight for name, weight in (shares or {}).items()}
    numbers |= {"default_share": default_share, "ageing_seconds": ageing_seconds}
    for name, value in numbers.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not isfinite(value) or not value > 0:
            raise ValueError(f"{name}: {value!r}: must be a number above 0")
    if shares is not None and queues:
        raise ValueError("shares: weights are those of queues, where there are any")
    if shares is None and not queues.divide:
        return None
    return Shares(
        weights=queues.weights if shares is None else dict(shares),
        default=default_share,
        ageing=ageing_seconds,
        dominant=shares is None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A job in the division: `least` is what its smallest size takes."""

    job: JobInfo
    least: Amounts
    holds: bool
    """The job has nodes now."""

    @property
    def waited(self) -> float:
        """Return the seconds that it has not run, if it ran at its least size before."""
        replicas = max(1, sum(task.minimum for task in self.job.tasks))
        return max(0.0, self.job.age - self.job.attained / replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entitlements:
    """The entitlements of namespaces, of the resources in which shares are measured. The jobs of
    `turns`, by key, have their least size in addition.
    """

    rooms: Mapping[str, Amounts]
    turns: frozenset[str] = field(default_factory=frozenset)


def entitle(
    wanted: Mapping[str, Amounts], claims: Sequence[Claim], shares: Shares, room: Amounts
) -> Entitlements:
    """Divide the capacity among namespaces.

    Args:
        wanted: by namespace, what its jobs would take if they could.
        claims: the jobs of these namespaces, in the order of their precedence.
        shares: the weights.
        room: what is available to them, of the resources in which shares are measured.
    """
    floors = _guaranteed(wanted, claims, room)
    rooms = _fill(wanted, shares, room, floors)
    turns: dict[str, Claim] = {}
    left = {
        name: amount - sum(floor.get(name, 0.0) for floor in floors.values())
        for name, amount in room.items()
    }
    for claim in sorted(
        claims, key=lambda claim: (-(claim.waited // shares.ageing), not claim.holds)
    ):
        namespace = claim.job.namespace
        is_due = claim.job.age // shares.ageing % 2 == 1 and not fits(claim.least, rooms[namespace])
        if not is_due or namespace in turns:
            continue
        # It takes the place of what its own namespace is guaranteed.
        own = floors.get(namespace, {})
        beside = {name: amount + own.get(name, 0.0) for name, amount in left.items()}
        if fits(claim.least, beside):
            turns[namespace] = claim
            left = {name: beside[name] - claim.least.get(name, 0.0) for name in left}
    if not turns:
        return Entitlements(rooms=rooms)
    others: dict[str, Amounts] = {
        name: {} if name in turns else want for name, want in wanted.items()
    }
    taken = total_of([claim.least for claim in turns.values()])
    rest = {name: amount - taken.get(name, 0.0) for name, amount in room.items()}
    floors = {name: {} if name in turns else floor for name, floor in floors.items()}
    return Entitlements(
        rooms=_fill(others, shares, rest, floors),
        turns=frozenset(claim.job.key for claim in turns.values()),
    )


def fits(amounts: Amounts, room: Amounts) -> bool:
    """Return whether the amounts fit, for the resources of `room`."""
    return all(amounts.get(name, 0.0) <= most * EXACT for name, most in room.items())


def total_of(amounts: Sequence[Amounts]) -> dict[str, float]:
    """Return the sum by resource."""
    found: dict[str, float] = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = found.get(name, 0.0) + amount
    return found


def _fill(
    wanted: Mapping[str, Amounts], shares: Shares, room: Amounts, floors: Mapping[str, Amounts]
) -> dict[str, Amounts]:
    if shares.dominant:
        weights = {name: shares.of(name) for name in wanted}
        return dict(fill_dominant(wanted, weights, room, floors))
    ((name, amount),) = room.items()
    one = {namespace: want.get(name, 0.0) for namespace, want in wanted.items()}
    return {
        namespace: {name: part} for namespace, part in fill_by_weight(one, shares, amount).items()
    }


def _guaranteed(
    wanted: Mapping[str, Amounts], claims: Sequence[Claim], room: Amounts
) -> dict[str, Amounts]:
    """Return what namespaces want of their guarantees and do not have elsewhere, scaled down where
    more is guaranteed than available.
    """
    accounts = {claim.job.namespace: claim.job.account for claim in claims if claim.job.account}
    floors = {
        namespace: {
            name: max(0.0, min(amount - account.taken.get(name, 0), wanted[namespace].get(name, 0)))
            for name, amount in account.guarantee.items()
            if name in room
        }
        for namespace, account in accounts.items()
    }
    promised = total_of(list(floors.values()))
    return {
        namespace: {
            name: amount * min(1.0, room[name] / promised[name]) if promised[name] else 0.0
            for name, amount in floor.items()
        }
        for namespace, floor in floors.items()
    }


def fill_by_weight(wanted: Mapping[str, float], shares: Shares, amount: float) -> dict[str, float]:
    """Give each namespace what it wants or its weighted part, and divide the rest among the
    others.
    """
    rooms: dict[str, float] = {}
    # Who wants the least for its weight is the first to have enough.
    order = sorted(wanted, key=lambda name: (wanted[name] / shares.of(name), name))
    left, weights = amount, sum(shares.of(name) for name in order)
    for name in order:
        weight = shares.of(name)
        rooms[name] = min(wanted[name], left * weight / weights if weights > 0 else left)
        left -= rooms[name]
        weights -= weight
    return rooms
