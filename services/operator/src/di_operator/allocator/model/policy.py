"""The protocol of a policy. Users add their own under the entry point group
`di_operator.policies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo


class Policy(Protocol):
    """The decision for each job: how many replicas its tasks have, and on which nodes.

    Both answers must be within each task's bounds or empty, and fit into what is free. The same
    arguments must give the same answer, so a policy uses neither time nor randomness.
    """

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        """Place one job that has just arrived; the capacity of running jobs is not free here."""

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        """Reconsider all jobs. `previous` is what they have; that counts as free in `nodes`."""
