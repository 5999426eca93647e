"""The policy `fit`, for jobs that report nothing: all or nothing on the fullest node that takes
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from di_operator.allocator.admission.backfill import Backfill, read_backfill
from di_operator.allocator.admission.by_priority import admit
from di_operator.allocator.admission.by_shares import admit_by_shares
from di_operator.allocator.admission.in_order import tightest
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList, TaskInfo
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.sharing.fair_shares import DEFAULT_AGEING, DEFAULT_SHARE, read_shares
from di_operator.allocator.sharing.queues import read_queues


class FitPolicy:
    """Best fit by priority, then age. A job is stopped only for one of higher priority, or to give
    back what was lent to its namespace.

    Args:
        backfill: whether later jobs may start while an earlier one waits for more than is
            free. It uses the cluster better, and can keep a large job waiting. "reserve": only
            where they do not delay the first that waits (see `backfill`).
        shares: weights of namespaces in the capacity of preemptible jobs (see `entitlements`);
            None: all jobs are equal, whatever their namespace.
        default_share: the weight of namespaces that `shares` does not name.
        ageing_seconds: the turns in which jobs that are larger than their namespace's share
            run.
        queues: weight, guarantee and quota of namespaces (see `queues`); with a weight or a
            guarantee, shares are dominant ones.

    Raises ValueError for a weight or a time that is not a number above 0.
    """

    def __init__(
        self,
        *,
        backfill: bool | str = True,
        shares: Mapping[str, float] | None = None,
        default_share: float = DEFAULT_SHARE,
        ageing_seconds: float = DEFAULT_AGEING,
        queues: Mapping[str, Any] | None = None,
    ) -> None:
        self._backfill = read_backfill(backfill)
        self.queues = read_queues(queues)
        self._shares = read_shares(shares, default_share, ageing_seconds, self.queues)

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
            return admit(
                jobs, nodes, previous, choose_node=self.choose_node, backfill=self._backfill
            )
        return admit_by_shares(
            jobs,
            nodes,
            previous,
            choose_node=self.choose_node,
            backfill=self._backfill,
            shares=self._shares,
        )

    def choose_node(self, capacity: FreeCapacity, task: TaskInfo, slots: Sequence[int]) -> int:
        """Return the row of the node for the next replica of a task, out of those with slots."""
        return tightest(capacity, task, slots)
