"""Sizes from one budget: never over it, and as good as a solver's answer."""

from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_operator.allocator.sizing.choose import Offer, choose
from tests.solver import best_worth, worth


@st.composite
def offers(draw: st.DrawFn) -> list[Offer]:
    found = []
    for _ in range(draw(st.integers(1, 5))):
        steps = draw(st.lists(st.integers(1, 5), min_size=0, max_size=4))
        costs = [float(sum(steps[:n])) for n in range(len(steps) + 1)]
        values = [draw(st.floats(-10, 10)) for _ in costs]
        found.append(Offer(costs, values))
    return found


def price(found: list[Offer], chosen: list[int]) -> float:
    return sum(offer.costs[at] for offer, at in zip(found, chosen, strict=True))


@given(found=offers(), budget=st.integers(0, 40))
def test_the_budget_holds_and_no_single_step_would_improve(found: list[Offer], budget: int) -> None:
    chosen = choose(found, float(budget))

    assert price(found, chosen) <= budget
    for row, offer in enumerate(found):
        for target in range(chosen[row] + 1, len(offer.costs)):
            cost = offer.costs[target] - offer.costs[chosen[row]]
            if cost <= budget - price(found, chosen):
                assert offer.values[target] <= offer.values[chosen[row]]


@given(found=offers(), budget=st.integers(0, 40))
def test_the_answer_is_within_one_step_of_the_best(found: list[Offer], budget: int) -> None:
    chosen = choose(found, float(budget))
    best = max(
        worth(found, list(at))
        for at in product(*(range(len(offer.costs)) for offer in found))
        if price(found, list(at)) <= budget
    )
    largest_step = max(max(offer.values) - min(offer.values) for offer in found)

    assert worth(found, chosen) >= best - largest_step - 1e-9


@pytest.mark.parametrize(("jobs", "budget"), [(20, 64), (60, 64), (100, 256), (200, 1000)])
def test_concave_jobs_get_as_much_value_as_from_a_solver(jobs: int, budget: int) -> None:
    rng = random.Random(jobs)
    costs = [0.0, 1.0, 2.0, *(4.0 * n for n in range(1, 17))]
    found = [
        Offer(costs, [-1 / ((cost ** rng.uniform(0.3, 0.9)) + 1e-3) for cost in costs])
        for _ in range(jobs)
    ]

    assert worth(found, choose(found, budget)) >= best_worth(found, budget) * (1 + 1e-3)


def test_small_steps_use_what_a_large_one_does_not_fit_into() -> None:
    large, small = Offer([0, 10], [0, 100]), Offer([0, 1, 2, 3], [0, 1, 2, 3])
    assert choose([large, small], 3) == [0, 3]
