"""What a solver makes of the allocator's problem: the bound its answers are held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import LinearConstraint, milp

from di_operator.allocator.sizing.choose import Offer

SECONDS = 60.0


def best_worth(offers: Sequence[Offer], budget: float) -> float:
    """The highest sum of values within the budget, one size a job, by HiGHS."""
    values = np.concatenate([offer.values for offer in offers])
    costs = np.concatenate([offer.costs for offer in offers])
    owner = np.repeat(np.arange(len(offers)), [len(offer.costs) for offer in offers])
    one_each = (owner == np.arange(len(offers))[:, None]).astype(float)
    answer = milp(
        -values,
        integrality=np.ones(len(values)),
        bounds=(0, 1),
        constraints=[
            LinearConstraint(costs[None, :], ub=budget),
            LinearConstraint(one_each, lb=1, ub=1),
        ],
        options={"time_limit": SECONDS},
    )
    if answer.x is None:
        raise RuntimeError(answer.message)
    # The solver's bound rather than its solution: nothing can be better.
    return float(-answer.mip_dual_bound)


def worth(offers: Sequence[Offer], chosen: Sequence[int]) -> float:
    """The sum of values of an answer."""
    return float(sum(offer.values[at] for offer, at in zip(offers, chosen, strict=True)))


def best_worth_on_kinds(
    offers: Sequence[Mapping[str, Offer]], budgets: Mapping[str, float]
) -> float:
    """The highest sum of values within the budget of each kind, one size a job, by HiGHS."""
    points = [
        (row, kind, cost, value)
        for row, each in enumerate(offers)
        for kind, offer in each.items()
        for cost, value in zip(offer.costs, offer.values, strict=True)
    ]
    owner = np.array([row for row, *_ in points])
    costs = np.array([[c if on == kind else 0.0 for _, on, c, _ in points] for kind in budgets])
    answer = milp(
        -np.array([value for *_, value in points]),
        integrality=np.ones(len(points)),
        bounds=(0, 1),
        constraints=[
            LinearConstraint(costs, ub=list(budgets.values())),
            LinearConstraint((owner == np.arange(len(offers))[:, None]).astype(float), lb=1, ub=1),
        ],
        options={"time_limit": SECONDS},
    )
    if answer.x is None:
        raise RuntimeError(answer.message)
    return float(-answer.mip_dual_bound)
