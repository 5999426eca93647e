"""The worth of a plan: the values of the sizes that its jobs have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from di_operator.allocator.goodput.kinds import Ladder
from di_operator.allocator.model.job import NodeList
from di_operator.allocator.sizing.choose import Offer
from di_operator.allocator.sizing.demand import Demand, Option
from di_operator.allocator.sizing.pools import pools_of
from di_operator.allocator.sizing.sized_plan import SizedPlan
from tests.unit.allocator.worlds import job, node, task

LEARNER = task(1, gpu=1)
OFFER = Offer([0.0, 1.0, 2.0], [-1.0, 5.0, 6.0])


def demand(*kinds: str) -> Demand:
    """Of sizes up to 4, of which 1 and 2 are offered."""
    options = {
        kind: Option(
            task=LEARNER,
            rows=frozenset({0}),
            ladder=Ladder(kind=kind, sizes=(0, 1, 2, 4), per_node=4),
            present=0,
            offered=3,
        )
        for kind in kinds
    }
    return Demand(job=job("a/x", LEARNER), task=LEARNER, options=options, silent=False)


@pytest.mark.parametrize(
    ("kinds", "learners", "worth"),
    [
        (("old", "new"), 0, -1.0),
        (("old", "new"), 1, 5.0),
        (("old", "new"), 3, 6.0),
        (("old", "new"), 4, 6.0),
        (("",), 2, 6.0),
        # The node is of a kind that is not offered any more.
        (("old", "other"), 2, 6.0),
    ],
)
def test_a_cut_size_has_the_value_of_the_next_lower_offer(
    kinds: tuple[str, ...], learners: int, worth: float
) -> None:
    asked = demand(*kinds)
    (pool,) = pools_of([asked])
    offers = {"a/x": dict.fromkeys(asked.options, OFFER)}
    answer = {"a/x": NodeList.of({LEARNER.name: ("n",) * learners})}
    plan = SizedPlan(answer={}, pools=(pool,), offers=offers)
    nodes = {"n": replace(node("n", gpu=4), kind="new")}
    assert plan.worth(pool, answer, nodes) == worth
