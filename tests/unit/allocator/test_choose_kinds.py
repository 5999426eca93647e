"""Sizes from one budget for each kind of node: never over one, and nearly a solver's answer."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.allocator.sizing.choose import Offer
from di_operator.allocator.sizing.choose_node_kinds import Choice, choose_kinds
from tests.solver import best_worth_on_kinds

Offers = Sequence[Mapping[str, Offer]]


@st.composite
def offers(draw: st.DrawFn) -> list[dict[str, Offer]]:
    found = []
    for _ in range(draw(st.integers(1, 5))):
        nothing = draw(st.floats(-10, 10))
        each = {}
        for kind in draw(st.sets(st.sampled_from("abc"), min_size=1)):
            steps = draw(st.lists(st.integers(0, 5), min_size=0, max_size=4))
            costs = [float(sum(steps[:n])) for n in range(len(steps) + 1)]
            each[kind] = Offer(costs, [nothing, *(draw(st.floats(-10, 10)) for _ in steps)])
        found.append(each)
    return found


def spent(found: Offers, chosen: Sequence[Choice]) -> dict[str, float]:
    costs = dict.fromkeys("abc", 0.0)
    for each, (kind, size) in zip(found, chosen, strict=True):
        costs[kind] += each[kind].costs[size]
    return costs


def worth(found: Offers, chosen: Sequence[Choice]) -> float:
    return sum(each[kind].values[size] for each, (kind, size) in zip(found, chosen, strict=True))


@given(found=offers(), budgets=st.tuples(*[st.integers(0, 15)] * 3))
def test_budgets_by_node_type_hold_and_no_single_change_improves(
    found: list[dict[str, Offer]], budgets: tuple[int, ...]
) -> None:
    amounts = {kind: float(each) for kind, each in zip("abc", budgets, strict=True)}

    chosen = choose_kinds(found, amounts)

    left = {kind: amounts[kind] - cost for kind, cost in spent(found, chosen).items()}
    assert min(left.values()) >= 0
    for each, now in zip(found, chosen, strict=True):
        value, cost = each[now.kind].values[now.size], each[now.kind].costs[now.size]
        for kind, offer in each.items():
            room = left[kind] + (cost if kind == now.kind else 0)
            fitting = [n for n in range(1, len(offer.costs)) if offer.costs[n] <= room]
            assert all(offer.values[n] <= value for n in fitting)


@pytest.mark.parametrize(("jobs", "gap"), [(5, 0.03), (20, 0.03), (60, 0.03), (200, 0.02)])
def test_jobs_get_nearly_as_much_value_as_from_a_solver(jobs: int, gap: float) -> None:
    rng = random.Random(jobs)
    found = [_job(rng) for _ in range(jobs)]
    amounts = {"a": 4.0 * jobs / 5, "b": 4.0 * jobs / 5, "c": 4.0 * jobs / 10}

    chosen = choose_kinds(found, amounts)

    best = best_worth_on_kinds(found, amounts)
    assert worth(found, chosen) >= best - gap * abs(best)


def _job(rng: random.Random) -> dict[str, Offer]:
    costs = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0]
    each = {}
    for kind, fastest in (("a", 1), ("b", 3), ("c", 10)):
        faster, power = rng.uniform(1, fastest), rng.uniform(0.3, 0.9)
        speeds = [faster * cost**power for cost in costs]
        each[kind] = Offer(costs, [-1 / (speed**0.25 + 1e-3) for speed in speeds])
    return each


def test_the_scarce_node_type_goes_to_the_job_that_gains_most() -> None:
    helped = {"slow": Offer([0, 1], [0, 1]), "fast": Offer([0, 1], [0, 9])}
    indifferent = {"slow": Offer([0, 1], [0, 2]), "fast": Offer([0, 1], [0, 3])}

    for row, found in enumerate(([helped, indifferent], [indifferent, helped])):
        chosen = choose_kinds(found, {"slow": 1.0, "fast": 1.0})
        assert chosen[row] == Choice("fast", 1)
        assert chosen[1 - row] == Choice("slow", 1)


def test_a_job_gives_way_if_another_gains_more_than_it_loses() -> None:
    large = {"a": Offer([0, 4], [0, 8])}
    small = [{"a": Offer([0, 1], [0, 3]), "b": Offer([0, 1], [0, 2.5])} for _ in range(4)]

    chosen = choose_kinds([large, *small], {"a": 4.0, "b": 4.0})

    assert chosen == [Choice("a", 1), *[Choice("b", 1)] * 4]


def _few_jobs(rng: random.Random) -> list[dict[str, Offer]]:
    found: list[dict[str, Offer]] = [{} for _ in range(4)]
    for each, (kind, fastest) in product(found, (("a", 1), ("b", 3))):
        faster, power = rng.uniform(1, fastest), rng.uniform(0.3, 0.9)
        each[kind] = Offer([0, 1, 2, 4], [0, *(faster * size**power for size in (1, 2, 4))])
    return found


@cache
def _small_worlds() -> list[tuple[list[dict[str, Offer]], float]]:
    """Four jobs each, and the most that any choice for them is worth."""
    worlds = [_few_jobs(random.Random(seed)) for seed in range(60)]
    choices = [Choice(kind, size) for kind in "ab" for size in range(4)]
    return [
        (
            found,
            max(
                worth(found, chosen)
                for chosen in product(choices, repeat=4)
                if all(cost <= FEW[kind] for kind, cost in spent(found, chosen).items())
            ),
        )
        for found in worlds
    ]


FEW = {"a": 4.0, "b": 3.0, "c": 0.0}


def test_few_jobs_miss_half_a_percent_of_the_best_and_each_budget_holds() -> None:
    """1.5 % is what is missed when no job gives way to another that gains more."""
    missed = 0.0
    for found, best in _small_worlds():
        chosen = choose_kinds(found, {"a": FEW["a"], "b": FEW["b"]})
        assert all(cost <= FEW[kind] for kind, cost in spent(found, chosen).items())
        missed += 1 - worth(found, chosen) / best
    assert missed / len(_small_worlds()) <= 0.005
