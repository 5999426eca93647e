"""The policy `binpack`: fill the fullest nodes first, by a weighted share of their resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from di_operator.allocator.admission.backfill import Backfill, read_backfill
from di_operator.allocator.admission.by_priority import admit
from di_operator.allocator.admission.by_shares import admit_by_shares
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList, TaskInfo
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.sharing.fair_shares import DEFAULT_AGEING, DEFAULT_SHARE, read_shares
from di_operator.allocator.sharing.queues import read_queues

_OTHER_WEIGHT = 1.0


class BinpackPolicy:
    """Binpacking: each replica goes to the node of the highest score on which it fits.

    The score of a node is the mean over the requested resources of (used + requested) /
    allocatable, weighted by `weights` (resource name to weight; 1 for those not named). A resource
    of weight 0 does not count. Admission and shares are those of `fit`.

    Raises ValueError for a weight that is negative or not a number, and as `fit` does.
    """

    def __init__(
        self,
        *,
        weights: Mapping[str, float] | None = None,
        backfill: bool | str = True,
        shares: Mapping[str, float] | None = None,
        default_share: float = DEFAULT_SHARE,
        ageing_seconds: float = DEFAULT_AGEING,
        queues: Mapping[str, Any] | None = None,
    ) -> None:
        self._weights = dict(weights or {})
        self._backfill = read_backfill(backfill)
        self.queues = read_queues(queues)
        self._shares = read_shares(shares, default_share, ageing_seconds, self.queues)
        for resource, weight in self._weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight >= 0:
                raise ValueError(f"weights: {resource}: {weight!r}: must be a number >= 0")

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        """Place one job that has just arrived."""
        if self._backfill is Backfill.RESERVE:
            # Which jobs wait for which nodes is known only when all jobs are reconsidered.
            return WAIT
        return self.optimize({job.key: job}, nodes, {}).get(job.key, WAIT)

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        """Start the jobs that fit beside the running ones."""
        if self._shares is None:
            return admit(jobs, nodes, previous, choose_node=self._fullest, backfill=self._backfill)
        return admit_by_shares(
            jobs,
            nodes,
            previous,
            choose_node=self._fullest,
            backfill=self._backfill,
            shares=self._shares,
        )

    def _fullest(self, capacity: FreeCapacity, task: TaskInfo, slots: Sequence[int]) -> int:
        weights = {
            name: self._weights.get(name, _OTHER_WEIGHT)
            for name, amount in task.resources.items()
            if amount > 0
        }

        def score(row: int) -> float:
            total, free = capacity.nodes[row].total, capacity.free[row]
            return sum(
                weight * (total[name] - free[name] + task.resources[name]) / total[name]
                for name, weight in weights.items()
            )

        # Dividing by the sum of the weights would not change which is the highest.
        return max((row for row, free in enumerate(slots) if free), key=score)
