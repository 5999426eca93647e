"""Who is set aside when a policy fails."""

from __future__ import annotations

from collections.abc import Mapping

from di_operator.allocator.culprits import find_culprits
from di_operator.allocator.job import WAIT, JobInfo, NodeList
from di_operator.allocator.node import NodeInfo
from tests.unit.allocator.objects import job, snapshot, task


class Picky:
    """A policy that fails on jobs of certain names."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        return WAIT

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        if bad := [key for key in jobs if key.partition("/")[2] in self._names]:
            raise OverflowError(f"cannot bear {bad[0]}")
        return {}


def culprits(*bad: str) -> dict[str, str]:
    found = snapshot(*(job(name, task("learner")) for name in ("x", "y", "z")))
    return find_culprits(Picky(*bad), found.jobs, found.nodes, found.held)


def test_jobs_that_a_policy_fails_on_are_named_with_the_error() -> None:
    why = "the allocation policy fails on it: OverflowError: cannot bear rl/y"
    assert culprits("y") == {"rl/y": why}
    assert culprits("x", "z").keys() == {"rl/x", "rl/z"}


def test_a_policy_that_fails_on_every_job_blames_none() -> None:
    assert culprits("x", "y", "z") == {}
