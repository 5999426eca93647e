"""What a solver makes of the allocator's problem: the bound its answers are held against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import LinearConstraint, milp

from di_operator.allocator.choose import Offer

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
