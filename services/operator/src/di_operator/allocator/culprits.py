"""Which job a policy cannot bear."""

from __future__ import annotations

from collections.abc import Mapping

from di_api.wording import describe
from di_operator.allocator.job import JobInfo, NodeList
from di_operator.allocator.node import NodeInfo
from di_operator.allocator.policy import Policy


def find_culprits(
    policy: Policy,
    jobs: Mapping[str, JobInfo],
    nodes: Mapping[str, NodeInfo],
    held: Mapping[str, NodeList],
) -> dict[str, str]:
    """Return the jobs that the policy fails on when asked about each alone, and what it raised.

    For a policy that failed on all jobs together: a report it cannot bear must cost its author
    alone. Nobody is to blame when it fails on every job, for then the fault is its own.
    """
    culprits: dict[str, str] = {}
    for key, job in jobs.items():
        try:
            policy.optimize({key: job}, nodes, {key: held[key]})
        except Exception as error:
            culprits[key] = f"the allocation policy fails on it: {describe(error)}"
    return culprits if len(culprits) < len(jobs) else {}
