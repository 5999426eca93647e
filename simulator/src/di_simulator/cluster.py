"""The cluster of a simulation: rounds of running and deciding, as the Pollux artifact has them.

All jobs run for one round, then the policy decides about those that have arrived and are not
complete. A job whose nodes change stands still for the first 30 seconds of the next round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from di_operator.allocator.job import WAIT, JobInfo, NodeList, TaskInfo
from di_operator.allocator.node import NodeInfo
from di_operator.allocator.plan import make_plan
from di_operator.allocator.policy import Policy
from di_operator.allocator.resources import UNIT
from di_simulator.conditions import Condition, told
from di_simulator.job import SimulatedJob
from di_simulator.workload import UNSCALED

GPU: Final = "nvidia.com/gpu"
TASK: Final = "learner"
# The recordings end there.
_MOST_REPLICAS: Final = 64


def make_nodes(count: int, gpus_each: int) -> dict[str, NodeInfo]:
    """Return equal nodes, named in the order of their numbers."""
    room = {GPU: gpus_each * UNIT}
    names = [f"node-{number:04d}" for number in range(count)]
    return {name: NodeInfo(name=name, total=room, free=room) for name in names}


def gpus(node: NodeInfo) -> int:
    """GPUs of a node."""
    return node.total[GPU] // UNIT


@dataclass(slots=True, kw_only=True)
class Cluster:
    """Nodes, jobs and the policy that brings them together. Times in seconds."""

    policy: Policy
    jobs: Sequence[SimulatedJob]
    nodes: dict[str, NodeInfo]
    stopwatch: Callable[[], float]
    """Processor time; measured, never heeded."""
    remaining_known: bool = False
    condition: Condition = Condition.IDEAL
    now: float = 0.0
    allocations: dict[str, NodeList] = field(default_factory=dict)
    decisions: list[float] = field(default_factory=list)
    timeline: list[tuple[float, dict[str, tuple[str, ...]]]] = field(default_factory=list)
    wanted: list[Counter[str]] = field(default_factory=list)
    """By round: the most GPUs that the jobs of each tenant can use."""

    @property
    def capacity(self) -> int:
        """GPUs of all nodes."""
        return sum(gpus(node) for node in self.nodes.values())

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left to simulate."""
        return all(job.completed is not None for job in self.jobs)

    def step(self, seconds: float = 60.0) -> None:
        """Run one round, then decide. Raises ValueError for an answer that cannot be."""
        for job in self.jobs:
            job.run(seconds)
        self.now += seconds
        infos = {
            job.name: told(self.condition, number, self._info(job))
            for number, job in enumerate(self.jobs)
            if job.submitted <= self.now and job.completed is None
        }
        self.wanted.append(Counter())
        for info in infos.values():
            self.wanted[-1][info.namespace] += info.tasks[0].maximum
        previous = {key: nodes for key, nodes in self.allocations.items() if key in infos}
        self.allocations = self._decide(infos, previous) if infos else {}
        for job in self.jobs:
            before, after = previous.get(job.name, WAIT), self.allocations.get(job.name, WAIT)
            if before != after:
                job.place(tuple(len(list(same)) for _, same in groupby(after)))
        tenants: dict[str, list[str]] = {}
        for key, placed in self.allocations.items():
            for node in placed:
                tenants.setdefault(node, []).append(key)
        self.timeline.append((self.now, {node: tuple(keys) for node, keys in tenants.items()}))

    def _decide(
        self, infos: dict[str, JobInfo], previous: dict[str, NodeList]
    ) -> dict[str, NodeList]:
        started = self.stopwatch()
        answer = self.policy.optimize(infos, self.nodes, previous)
        self.decisions.append(self.stopwatch() - started)
        plan = make_plan(answer, infos, self.nodes, previous)
        if plan.refused:
            job, problem = next(iter(plan.refused.items()))
            raise ValueError(f"the policy's answer for {job}: {problem}")
        return {key: placed for key, placed in plan.allocations.items() if placed}

    def _info(self, job: SimulatedJob) -> JobInfo:
        limits = job.application.limits
        most = (job.batch or limits.maximum) // limits.local_min
        fixed = job.application.name in UNSCALED
        maximum = 1 if fixed else min(most, _MOST_REPLICAS)
        return JobInfo(
            key=job.name,
            tasks=(
                TaskInfo(
                    name=TASK,
                    # Admission refuses a job that asks for more than its maximum.
                    replicas=min(job.replicas, maximum),
                    minimum=1,
                    maximum=maximum,
                    resources={GPU: UNIT},
                ),
            ),
            preemptible=True,
            age=self.now - job.submitted,
            attained=job.attained,
            restarts=job.restarts,
            model=job.model,
            explored=job.explored,
            remaining=job.remaining * limits.initial if self.remaining_known else None,
        )
