"""A plan of sizes and its worth, for the comparison with a plan that stops fewer jobs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from di_operator.allocator.model.job import WAIT, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.sizing.choose import Offer
from di_operator.allocator.sizing.demand import Demand
from di_operator.allocator.sizing.pools import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedPlan:
    """The nodes of every job, and the pools and offers from which sizes were chosen.

    `offers` has the value of each offered size by job and kind of nodes. The value of no replica at
    all has the price of a stop in it, for a job that runs.
    """

    answer: dict[str, NodeList]
    pools: Sequence[Pool]
    offers: Mapping[str, Mapping[str, Offer]]

    def worth(
        self, pool: Pool, answer: Mapping[str, NodeList], nodes: Mapping[str, NodeInfo]
    ) -> float:
        """Return the sum of the values of the sizes that the jobs of a pool have in an answer."""
        return sum(self._value(demand, answer[demand.job.key], nodes) for demand in pool.demands)

    def _value(self, demand: Demand, placed: NodeList, nodes: Mapping[str, NodeInfo]) -> float:
        offers = self.offers[demand.job.key]
        learners = placed.task(demand.task.name)
        if not learners:
            return min(offer.values[0] for offer in offers.values())
        kind = nodes[learners[0]].kind
        if kind not in offers:
            # With one kind of nodes its name may differ from theirs.
            kind = next(iter(offers))
        # Placement can cut a size to one that was not offered.
        at = bisect_right(demand.options[kind].ladder.sizes, len(learners)) - 1
        values = offers[kind].values
        return values[min(at, len(values) - 1)]


def stops_for_growth(
    plan: SizedPlan, previous: Mapping[str, NodeList], owner: Mapping[str, str]
) -> list[Pool]:
    """Return the pools in which a plan stops a running job and another one of its owner grows.

    `owner` is by job. With shares it is the namespace: one namespace may have to stop jobs so that
    those of another one can grow.
    """
    return [pool for pool in plan.pools if _stops_for_growth(pool, plan.answer, previous, owner)]


def _stops_for_growth(
    pool: Pool,
    answer: Mapping[str, NodeList],
    previous: Mapping[str, NodeList],
    owner: Mapping[str, str],
) -> bool:
    stopped, grown = set[str](), set[str]()
    for demand in pool.demands:
        key, name = demand.job.key, demand.task.name
        before = len(previous.get(key, WAIT).task(name))
        after = len(answer[key].task(name))
        if before and not after:
            stopped.add(owner[key])
        elif before and after > before:
            grown.add(owner[key])
    return not stopped.isdisjoint(grown)


def running_in(pools: Iterable[Pool], previous: Mapping[str, NodeList]) -> Set[str]:
    """Return the keys of the jobs of some pools that have nodes."""
    return {
        demand.job.key for pool in pools for demand in pool.demands if previous.get(demand.job.key)
    }
