"""Dominant resource fairness (A. Ghodsi et al., NSDI'11) with weights and floors. Pure.

The dominant share of a tenant is the largest part that it has of any resource. All tenants grow
together, each in the proportions of what it wants, by their dominant shares over their weights. A
tenant stops when it has what it wants, or when a resource that it wants is used up. So no tenant
prefers the division of another of its weight, and a tenant gains nothing by asking for more than
it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

Amounts = Mapping[str, float]

_HALVINGS: Final = 100
"""Steps of the bisection, more than a float has bits: the level is exact."""


def fill_dominant(
    wanted: Mapping[str, Amounts],
    weights: Mapping[str, float],
    room: Amounts,
    floors: Mapping[str, Amounts],
) -> dict[str, dict[str, float]]:
    """Return the amount of each resource for each tenant.

    Args:
        wanted: by tenant, at most what it gets; a resource that is not in `room` gives 0.
        weights: of the tenants, above 0.
        room: the available amounts.
        floors: what tenants have before the division; within the available amounts together.
    """
    filling = _Filling(wanted=wanted, room=room, floors=floors, weights=weights)
    used_up: set[str] = set()
    while growing := filling.growing:
        low, high = max(filling.frozen.values(), default=0.0), max(map(filling.enough, growing))
        if not filling.over(high, used_up):
            low = high
        else:
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (low, middle) if filling.over(middle, used_up) else (middle, high)
            used_up |= filling.over(high, used_up)
        for tenant in growing:
            wants_more = any(wanted[tenant].get(name, 0.0) > 0 for name in used_up)
            if wants_more or low >= filling.enough(tenant):
                filling.frozen[tenant] = low
    return {
        tenant: {name: filling.has(tenant, name, filling.frozen.get(tenant, 0.0)) for name in room}
        for tenant in wanted
    }


@dataclass(slots=True, kw_only=True)
class _Filling:
    """Tenants whose shares grow by one level; the level of those that stopped is stored."""

    wanted: Mapping[str, Amounts]
    room: Amounts
    floors: Mapping[str, Amounts]
    weights: Mapping[str, float]
    frozen: dict[str, float] = field(default_factory=dict)
    _speeds: dict[str, float] = field(init=False)
    """The part of what a tenant wants that it has at level 1; 0: it wants a resource that does not
    exist.
    """

    def __post_init__(self) -> None:
        self._speeds = {}
        for tenant, want in self.wanted.items():
            parts = [_part(want.get(name, 0.0), amount) for name, amount in self.room.items()]
            most = max(parts, default=0.0)
            self._speeds[tenant] = self.weights[tenant] / most if most > 0 else 0.0

    @property
    def growing(self) -> list[str]:
        """Return the tenants that are to have more."""
        return [name for name, speed in self._speeds.items() if speed and name not in self.frozen]

    def enough(self, tenant: str) -> float:
        """Return the level at which a tenant has what it wants."""
        return 1 / self._speeds[tenant]

    def has(self, tenant: str, name: str, level: float) -> float:
        """Return a tenant's amount of a resource at a level."""
        part = min(1.0, self._speeds[tenant] * level) * self.wanted[tenant].get(name, 0.0)
        return max(self.floors.get(tenant, {}).get(name, 0.0), part)

    def over(self, level: float, but: set[str]) -> set[str]:
        """Return the resources, except for `but`, that would be exceeded at this level."""
        levels = {tenant: self.frozen.get(tenant, level) for tenant in self.wanted}
        return {
            name
            for name, amount in self.room.items()
            if name not in but
            and sum(self.has(tenant, name, at) for tenant, at in levels.items()) > amount
        }


def _part(amount: float, room: float) -> float:
    return amount / room if room > 0 else inf if amount > 0 else 0.0
