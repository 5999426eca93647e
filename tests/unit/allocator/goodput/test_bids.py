"""What jobs bid for: the resources that are divided, and the price of each size."""

from __future__ import annotations

from typing import Final

import pytest

from di_operator.allocator.goodput.kinds import Ladder
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.sharing.fair_shares import Shares
from di_operator.allocator.sizing.bids import make_bids, measured_room
from di_operator.allocator.sizing.choose import Offer
from di_operator.allocator.sizing.choose_bids import Bid, Budget, choose_bids
from di_operator.allocator.sizing.demand import Demand, Option
from di_operator.allocator.sizing.pools import Pool, pools_of
from tests.unit.allocator.worlds import GPU, job, nodes, task

DOMINANT: Final = Shares(weights={}, default=1.0, ageing=60.0, dominant=True)
SCARCE: Final = Shares(weights={}, default=1.0, ageing=60.0)
LEARNER: Final = task(1, gpu=1, cpu=4, memory=0)
OFFER: Final = Offer([0.0, 1.0, 2.0], [0.0, 5.0, 6.0])


def demand() -> Demand:
    """Of a size of four, too, which is not yet on offer."""
    ladder = Ladder(kind="", sizes=(0, 1, 2, 4), per_node=4)
    option = Option(task=LEARNER, rows=frozenset({0, 1}), ladder=ladder, present=0, offered=3)
    return Demand(job=job("a/x", LEARNER), task=LEARNER, options={"": option}, silent=False)


def pool() -> Pool:
    (found,) = pools_of([demand()])
    return found


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        (None, {GPU: 16_000.0}),
        (SCARCE, {GPU: 16_000.0}),
        # Of all that jobs take something of; there may be none of it.
        (DOMINANT, {GPU: 16_000.0, "cpu": 0.0}),
    ],
    ids=["no shares", "shares of one resource", "dominant shares"],
)
def test_only_dominant_shares_divide_more_than_one_resource(
    shares: Shares | None, expected: dict[str, float]
) -> None:
    free = FreeCapacity(nodes(2, gpu=8, memory=64))
    assert measured_room(pool(), free, GPU, shares) == expected


def test_of_a_resource_without_any_free_there_is_nothing() -> None:
    assert measured_room(pool(), FreeCapacity(nodes(2, cpu=8)), GPU, None) == {GPU: 0.0}


@pytest.mark.parametrize(
    ("shares", "costs"),
    [(None, [0.0, 1.0, 2.0]), (SCARCE, [0.0, 1.0, 2.0]), (DOMINANT, [0.0, 0.5, 1.0])],
    ids=["no shares", "shares of one resource", "dominant shares"],
)
def test_a_size_costs_the_largest_part_of_any_resource_with_dominant_shares(
    shares: Shares | None, costs: list[float]
) -> None:
    found = demand()
    # Of what the job does not take it takes no part.
    room = {GPU: 8_000.0, "cpu": 8_000.0, "disk": 1.0}
    (bid,) = make_bids([found], [found.options[""]], [OFFER], room, shares)
    assert (bid.job, list(bid.offer.costs), list(bid.offer.values)) == (
        found.job,
        costs,
        OFFER.values,
    )
    assert [takes[GPU] for takes in bid.takes] == [0.0, 1000.0, 2000.0]


def test_a_size_that_takes_what_there_is_none_of_costs_more_than_all() -> None:
    found = demand()
    (bid,) = make_bids([found], [found.options[""]], [OFFER], {GPU: 0.0}, DOMINANT)
    assert list(bid.offer.costs) == [0.0, 1000.0, 2000.0]


def bid(key: str, *values: float, unit: float = 1.0, resource: str = GPU) -> Bid:
    """Sizes 0, 1, 2, ..., each of which costs a unit more."""
    costs = [unit * size for size in range(len(values) + 1)]
    takes = [{resource: cost} for cost in costs]
    return Bid(job=job(key, LEARNER), offer=Offer(costs, [0.0, *values]), takes=takes)


STEEP: Final = [{GPU: 0.0}, {GPU: 2.0}, {GPU: 3.0}]
LARGE: Final = bid("a/x", 90, unit=4)


@pytest.mark.parametrize(
    ("bids", "room", "quotas", "chosen"),
    [
        pytest.param(
            [bid("a/x", 9, 17), bid("b/x", 8, 9)], {GPU: 3}, {}, [2, 1], id="the steepest steps"
        ),
        pytest.param(
            [bid("a/x", 9, 17), bid("b/x", 8, 9)],
            {GPU: 3},
            {"a": {GPU: 1}},
            [1, 2],
            id="a namespace at its quota does not stop others",
        ),
        pytest.param(
            [bid("a/x", 90, unit=4), bid("b/x", 8, 9)],
            {GPU: 3},
            {},
            [0, 2],
            id="small steps use what a large one does not fit into",
        ),
        pytest.param(
            [bid("a/x", 9, 10), bid("a/y", 5, resource="cpu")],
            {GPU: 1, "cpu": 1},
            {"a": {"cpu": 0}},
            [1, 0],
            id="a quota bounds only the resource it names",
        ),
        pytest.param(
            [bid("a/x", 3), bid("a/y", 4), bid("a/z", 5)],
            {GPU: 9},
            {"a": {GPU: 2}},
            [0, 1, 1],
            id="jobs of a namespace share its quota",
        ),
        # What is left is for one step; the first one that is offered is not the best.
        pytest.param(
            [LARGE, bid("b/x", 7), bid("b/y", 8)],
            {GPU: 1},
            {},
            [0, 0, 1],
            id="the best of the rest",
        ),
        pytest.param(
            [LARGE, bid("b/x", 7), bid("b/y", 8)],
            {GPU: 3},
            {"b": {GPU: 1}},
            [0, 0, 1],
            id="the best of the rest within a quota",
        ),
        pytest.param(
            [LARGE, bid("b/x", 1, 9), bid("c/x", 3)],
            {GPU: 2},
            {},
            [0, 2, 0],
            id="the steepest step of a job, not its next one",
        ),
        pytest.param(
            [Bid(job=job("a/x", LEARNER), offer=Offer([0, 2, 3], [0, 9, 10]), takes=STEEP)],
            {GPU: 9},
            {"a": {GPU: 1}},
            [0],
            id="no second step without the first",
        ),
        pytest.param([bid("a/x", -1, 4)], {GPU: 9}, {}, [2], id="over a size that is worth less"),
        pytest.param([bid("a/x", -1, 0)], {GPU: 9}, {}, [0], id="nothing for no gain"),
    ],
)
def test_sizes_are_chosen_by_what_they_bring_within_the_budget(
    bids: list[Bid],
    room: dict[str, float],
    quotas: dict[str, dict[str, float]],
    chosen: list[int],
) -> None:
    budget = Budget(room, quotas)
    assert choose_bids(bids, budget) == chosen
    # What they take is taken from the budget.
    assert budget.room == Budget(room, quotas).less(bids, chosen).room
    assert Budget(room, quotas).holds(bids, chosen)


@pytest.mark.parametrize(
    ("room", "quotas", "holds"),
    [
        ({GPU: 2}, {}, True),
        ({GPU: 1}, {}, False),
        ({GPU: 9}, {"a": {GPU: 2}}, True),
        ({GPU: 9}, {"a": {GPU: 1}}, False),
        ({GPU: 9}, {"b": {GPU: 1}}, True),
    ],
)
def test_a_budget_holds_what_the_free_nodes_and_each_quota_have(
    room: dict[str, float], quotas: dict[str, dict[str, float]], holds: bool
) -> None:
    budget = Budget(room, quotas)
    assert budget.holds([bid("a/x", 1, 2)], [2]) is holds
    assert Budget({GPU: 0}, quotas).of_room(room).holds([bid("a/x", 1, 2)], [2]) is holds
    assert budget.room == room
