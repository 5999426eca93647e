"""What a policy is. Users bring their own under the entry point group `di_operator.policies`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo


class Policy(Protocol):
    """Decides for each job how many replicas its tasks have and on which nodes.

    Both answers must be within each task's bounds or empty, and fit into what is free. What they
    return for the same arguments must be the same; time and randomness are not theirs.
    """

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        """Place one job that has just arrived; what others have is no longer free."""

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        """Reconsider all jobs. `previous` is what they have; it counts as free in `nodes`."""
