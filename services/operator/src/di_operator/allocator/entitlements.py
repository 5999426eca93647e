"""How much of the preemptible room each namespace may call its own, by weights. Pure.

A share is one of the scarcest resource, which would run out first if all got what they ask for.
What is not scarce has no price, and of one resource there is exactly one division that is fair: by
water filling. (A dominant share, as in DRF, A. Ghodsi et al., NSDI'11, treats tenants better that
want different scarce resources, but leaves no one budget that sizes could be chosen from.)

A namespace is entitled to what it wants, or to its weighted part of the room if that is less; what
others do not want of theirs is divided again by the weights of those that want more.

Jobs have sizes, so exact shares are impossible: a namespace that wants more is below what it is
entitled to by less than one step of a job's size. A job whose least size is more than all that its
namespace is entitled to would never run beside tenants that want all of theirs. Such jobs take
turns (ageing): every other slot of so many seconds of its age a job is entitled to its least size,
and its namespace, which has more than its part by that, to nothing else. Where two are due at once
that do not fit together, who has waited longer goes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from di_operator.allocator.job import JobInfo

DEFAULT_SHARE: Final = 1.0
DEFAULT_AGEING: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The weights of namespaces, that of all others, and the seconds of a slot of ageing."""

    weights: Mapping[str, float]
    default: float
    ageing: float

    def of(self, namespace: str) -> float:
        """The weight of a namespace."""
        return self.weights.get(namespace, self.default)


def read_shares(
    shares: Mapping[str, float] | None, default_share: float, ageing_seconds: float
) -> Shares | None:
    """Return what a policy's arguments say; None: namespaces have no shares.

    Raises ValueError for a weight or time that is no number above 0.
    """
    if shares is not None and not isinstance(shares, Mapping):
        raise ValueError(f"shares: {shares!r}: must map namespaces to weights")
    numbers = {f"shares: {name}": weight for name, weight in (shares or {}).items()}
    numbers |= {"default_share": default_share, "ageing_seconds": ageing_seconds}
    for name, value in numbers.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not isfinite(value) or not value > 0:
            raise ValueError(f"{name}: {value!r}: must be a number above 0")
    if shares is None:
        return None
    return Shares(weights=dict(shares), default=default_share, ageing=ageing_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A job as far as shares go: `least` is what its smallest size takes of the resource."""

    job: JobInfo
    least: float
    holds: bool
    """Whether it has nodes now."""

    @property
    def waited(self) -> float:
        """Seconds that it has not run, by what it has had, taken to have been at its least size."""
        replicas = max(1, sum(task.minimum for task in self.job.tasks))
        return max(0.0, self.job.age - self.job.attained / replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entitlements:
    """What namespaces are entitled to; `turns` are jobs, by key, that have their least size
    besides."""

    rooms: Mapping[str, float]
    turns: frozenset[str] = field(default_factory=frozenset)


def entitle(
    wanted: Mapping[str, float], claims: Sequence[Claim], shares: Shares, amount: float
) -> Entitlements:
    """Divide an amount of the scarcest resource.

    Args:
        wanted: by namespace, what its jobs would take if they could.
        claims: the jobs of these namespaces, in the order of their precedence.
        shares: the weights.
        amount: all there is for them.
    """
    rooms = fill_by_weight(wanted, shares, amount)
    turns: dict[str, Claim] = {}
    left = amount
    for claim in sorted(
        claims, key=lambda claim: (-(claim.waited // shares.ageing), not claim.holds)
    ):
        namespace = claim.job.namespace
        is_due = claim.job.age // shares.ageing % 2 == 1 and claim.least > rooms[namespace]
        if is_due and namespace not in turns and claim.least <= left:
            turns[namespace] = claim
            left -= claim.least
    if not turns:
        return Entitlements(rooms=rooms)
    others = {name: 0.0 if name in turns else want for name, want in wanted.items()}
    return Entitlements(
        rooms=fill_by_weight(others, shares, left),
        turns=frozenset(claim.job.key for claim in turns.values()),
    )


def fill_by_weight(wanted: Mapping[str, float], shares: Shares, amount: float) -> dict[str, float]:
    """Give to each what it wants or its weighted part, and what is not wanted to the others."""
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
