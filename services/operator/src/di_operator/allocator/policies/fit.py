"""All or nothing on the fullest node that takes it: the policy of jobs that report nothing."""

from __future__ import annotations

from collections.abc import Mapping

from di_operator.allocator.admit import admit, tightest
from di_operator.allocator.job import WAIT, JobInfo, NodeList
from di_operator.allocator.node import NodeInfo


class FitPolicy:
    """Best fit by priority, then age; nobody is moved.

    `backfill`: whether later jobs may start while an earlier one waits for more room than there
    is. It uses the cluster better, and may keep a large job waiting.
    """

    def __init__(self, *, backfill: bool = True) -> None:
        self._backfill = backfill

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        """Place one job that has just arrived."""
        return self.optimize({job.key: job}, nodes, {}).get(job.key, WAIT)

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        """Start whoever fits beside those that run."""
        return admit(jobs, nodes, previous, choose_node=tightest, backfill=self._backfill)
