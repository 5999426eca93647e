"""The kind of nodes and the size of each job, when each kind has its own budget.

A job offers sizes on several kinds and gets one of them at most: a multiple-choice knapsack with
several resources. Jobs that can use only some nodes of a kind have an additional budget of these:
an offer counts against all budgets that it draws on. As in the dual, every budget has a price. At
these prices the sizes that jobs would take for themselves (those whose value exceeds their price
most) use about what is available. The steps of all jobs are then taken by gain per price, to
another kind if that is best, as far as they fit.

At last single jobs get what they would prefer at these prices, where that is worth more than it
costs the jobs that give way. For few jobs that brings the answer from 1 % to 0.2 % of the best.

The work is bounded. With one kind the result would be that of `choose`, which is faster.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple

from di_operator.allocator.sizing.choose import Offer, slope_of, upper_hull

# Rounds in which each price is adjusted to the others.
_ROUNDS: Final = 12
# Relative precision of a price.
_EXACT: Final = 1e-4
_SMALLEST: Final = 1e-12
# Least gain for which an answer is replaced.
_LEAST_GAIN: Final = 1e-9
# Maximum number of sizes considered for single jobs; some microseconds each.
_WORK: Final = 20_000


class Choice(NamedTuple):
    """A kind of node, and which of the sizes that are offered there."""

    kind: str
    size: int


def choose_kinds(
    offers: Sequence[Mapping[str, Offer]],
    budgets: Mapping[str, float],
    draws: Sequence[Mapping[str, tuple[str, ...]]] | None = None,
) -> list[Choice]:
    """Return the choice of each job; the costs that draw on a budget never exceed it.

    Every job offers something. The first size of an offer costs nothing, and is worth the same on
    every kind.

    Args:
        offers: of each job, by kind.
        budgets: by name.
        draws: of each job, by kind: the budgets that its offer draws on, no two kinds on the
            same one. None: each kind has one budget, of its name.
    """
    market = _Market(offers, budgets, draws or [{kind: (kind,) for kind in o} for o in offers])
    market.find_prices()
    market.fill()
    market.improve()
    return market.chosen


class _Hull:
    """The sizes of an offer that are the best at some price."""

    __slots__ = ("_falling", "_sizes", "draws", "offer")

    def __init__(self, offer: Offer, draws: tuple[str, ...]) -> None:
        self.offer = offer
        self.draws = draws
        self._sizes = upper_hull(offer)
        self._falling = [-slope_of(offer, low, high) for low, high in pairwise(self._sizes)]

    def at(self, price: float) -> int:
        """Return the size whose value exceeds its price most; of equals the smallest."""
        return self._sizes[bisect_left(self._falling, -price)]

    def gain(self, size: int, price: float) -> float:
        """Return the value of a size less its price."""
        return self.offer.values[size] - price * self.offer.costs[size]


class _Market:
    """The jobs by index, and their choices while an answer is made."""

    def __init__(
        self,
        offers: Sequence[Mapping[str, Offer]],
        budgets: Mapping[str, float],
        draws: Sequence[Mapping[str, tuple[str, ...]]],
    ) -> None:
        self._hulls = [
            {kind: _Hull(offer, names[kind]) for kind, offer in each.items()}
            for each, names in zip(offers, draws, strict=True)
        ]
        self._sizes = sum(len(offer.costs) for each in offers for offer in each.values())
        self._prices = dict.fromkeys(budgets, 0.0)
        self._left = dict(budgets)
        self.chosen = [Choice(next(iter(each)), 0) for each in offers]

    def find_prices(self) -> None:
        """Bring each price in turn to the lowest at which its budget is kept."""
        for _ in range(_ROUNDS):
            before = dict(self._prices)
            for name in self._prices:
                self._prices[name] = self._lowest(name)
            if before == self._prices:
                break

    def _price(self, hull: _Hull) -> float:
        return sum([self._prices[name] for name in hull.draws])

    def _lowest(self, name: str) -> float:
        # What a job pays besides, and what it would have on the best of the other kinds, does not
        # change in this loop.
        rivals = [
            (hull, self._price(hull) - self._prices[name], self._best_elsewhere(hulls, kind))
            for hulls in self._hulls
            for kind, hull in hulls.items()
            if name in hull.draws
        ]
        budget = self._left[name]

        def is_kept(price: float) -> bool:
            taken = 0.0
            for hull, besides, other in rivals:
                size = hull.at(price + besides)
                if hull.gain(size, price + besides) > other:
                    taken += hull.offer.costs[size]
            return taken <= budget

        if is_kept(0.0):
            return 0.0
        low, high = 0.0, max(self._prices[name], _SMALLEST)
        while not is_kept(high):
            low, high = high, high * 2
        while high - low > _EXACT * high:
            middle = (low + high) / 2
            low, high = (low, middle) if is_kept(middle) else (middle, high)
        return high

    def _best_elsewhere(self, hulls: Mapping[str, _Hull], kind: str) -> float:
        # Nothing on this kind is nothing on any.
        best = hulls[kind].offer.values[0]
        for other, hull in hulls.items():
            if other != kind:
                price = self._price(hull)
                best = max(best, hull.gain(hull.at(price), price))
        return best

    def fill(self) -> None:
        """Take the steps with the highest gain per price until none that fits brings a gain."""
        heap = [step for row in range(len(self.chosen)) if (step := self._step(row))]
        heapify(heap)
        while heap:
            _, row, choice = heappop(heap)
            if self._fits(row, choice):
                self._take(row, choice)
            if step := self._step(row):
                heappush(heap, step)

    def _step(self, row: int) -> tuple[float, int, Choice] | None:
        now = self._hulls[row][self.chosen[row].kind]
        value, paid = self._value(row), self._price(now) * self._cost(row)
        best: tuple[float, int, Choice] | None = None
        for kind, hull in self._hulls[row].items():
            costs, values, price = hull.offer.costs, hull.offer.values, self._price(hull)
            for size in range(1, len(costs)):
                choice = Choice(kind, size)
                if not self._fits(row, choice):
                    break
                gained = values[size] - value
                if gained <= 0:
                    continue
                brings = gained / max(price * costs[size] - paid, _SMALLEST)
                if best is None or -brings < best[0]:
                    best = (-brings, row, choice)
        return best

    def improve(self) -> None:
        """Give single jobs what they would prefer, at the least expense of others."""
        work, worth = 0, self._worth()
        while True:
            for row, choice in self._wishes():
                work += self._sizes
                if work > _WORK:
                    return
                before, left = list(self.chosen), dict(self._left)
                self._take(row, choice)
                self._make_room(row)
                self.fill()
                # An answer that exceeds a budget, because no job could give way, is rejected.
                if self._worth() > worth + _LEAST_GAIN and min(self._left.values()) >= 0:
                    worth = self._worth()
                    break
                self.chosen, self._left = before, left
            else:
                return

    def _wishes(self) -> list[tuple[int, Choice]]:
        """Return what jobs would prefer at these prices, by falling loss of not having it."""
        found = []
        for row, now in enumerate(self.chosen):
            have = self._gain(row, now)
            for kind, hull in self._hulls[row].items():
                choice = Choice(kind, hull.at(self._price(hull)))
                if choice != now:
                    found.append((have - self._gain(row, choice), row, choice))
        return [(row, choice) for _, row, choice in sorted(found)]

    def _make_room(self, keeping: int) -> None:
        """Reduce jobs other than that one until no budget is exceeded, if that is possible."""
        for name in self._left:
            while self._left[name] < 0:
                retreats = [
                    retreat
                    for row, now in enumerate(self.chosen)
                    if row != keeping and now.size and name in self._hulls[row][now.kind].draws
                    for retreat in self._retreats(row, name)
                ]
                if not retreats:
                    return
                _, row, choice = min(retreats)
                self._take(row, choice)

    def _retreats(self, row: int, budget: str) -> list[tuple[float, int, Choice]]:
        """Return the smaller choices of a job, by their loss per part of what the budget lacks."""
        now, cost = self.chosen[row], self._cost(row)
        have, missing = self._gain(row, now), -self._left[budget]
        found = []
        for kind, hull in self._hulls[row].items():
            for size, needed in enumerate(hull.offer.costs):
                if kind == now.kind:
                    if size == now.size:
                        break
                    freed = cost - needed
                elif not size or needed > self._free(hull):
                    continue
                else:
                    freed = cost
                if freed > 0:
                    choice = Choice(kind, size)
                    lost = have - self._gain(row, choice)
                    found.append((lost / min(freed, missing), row, choice))
        return found

    def _worth(self) -> float:
        return sum(self._value(row) for row in range(len(self.chosen)))

    def _value(self, row: int) -> float:
        kind, size = self.chosen[row]
        return self._hulls[row][kind].offer.values[size]

    def _cost(self, row: int) -> float:
        kind, size = self.chosen[row]
        return self._hulls[row][kind].offer.costs[size]

    def _gain(self, row: int, choice: Choice) -> float:
        hull = self._hulls[row][choice.kind]
        return hull.gain(choice.size, self._price(hull))

    def _free(self, hull: _Hull) -> float:
        return min([self._left[name] for name in hull.draws])

    def _fits(self, row: int, choice: Choice) -> bool:
        hull = self._hulls[row][choice.kind]
        free = self._free(hull)
        if choice.kind == self.chosen[row].kind:
            free += self._cost(row)
        return hull.offer.costs[choice.size] <= free

    def _take(self, row: int, choice: Choice) -> None:
        for name in self._hulls[row][self.chosen[row].kind].draws:
            self._left[name] += self._cost(row)
        self.chosen[row] = choice
        for name in self._hulls[row][choice.kind].draws:
            self._left[name] -= self._cost(row)
