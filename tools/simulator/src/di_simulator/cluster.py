"""The cluster of a simulation: rounds of running and deciding, as the Pollux artifact has them.

All jobs run for one round, then the policy decides about those that have arrived and are not
complete. A job whose nodes change stands still for the first 30 seconds of the next round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from di_operator.allocator.grants.checked_plan import make_plan
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList, TaskInfo
from di_operator.allocator.model.node import Constraints, NodeInfo
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.model.resources import UNIT
from di_operator.allocator.sharing.queues import Queues, queues_of
from di_simulator.conditions import Condition, told
from di_simulator.hardware import GPU, POOL, gpus
from di_simulator.job import SimulatedJob
from di_simulator.workload import UNSCALED, tenant_of

TASK: Final = "learner"
# The recordings end there.
_MOST_REPLICAS: Final = 64


@dataclass(slots=True, kw_only=True)
class Cluster:
    """Nodes, jobs and the policy that brings them together. Times in seconds."""

    policy: Policy
    jobs: Sequence[SimulatedJob]
    nodes: Mapping[str, NodeInfo]
    kinds_known: bool = True
    """Whether jobs and policy are told of what kind the nodes are."""
    stopwatch: Callable[[], float]
    """Processor time; measured, and never limited."""
    remaining_known: bool = False
    requests: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By tenant: what a replica asks for beside its GPU."""
    condition: Condition = Condition.IDEAL
    now: float = 0.0
    allocations: dict[str, NodeList] = field(default_factory=dict)
    decisions: list[float] = field(default_factory=list)
    timeline: list[tuple[float, dict[str, tuple[str, ...]]]] = field(default_factory=list)
    wanted: list[Counter[str]] = field(default_factory=list)
    """By round: the most GPUs that the jobs of each tenant can use."""
    _told: Mapping[str, NodeInfo] = field(init=False)
    _queues: Queues = field(init=False)

    def __post_init__(self) -> None:
        self._queues = queues_of(self.policy)
        self._told = self.nodes
        if not self.kinds_known:
            self._told = {name: replace(node, kind="") for name, node in self.nodes.items()}

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
                job.place(
                    tuple(len(list(same)) for _, same in groupby(after)),
                    {self.nodes[node].kind for node in after},
                )
        tenants: dict[str, list[str]] = {}
        for key, placed in self.allocations.items():
            for node in placed:
                tenants.setdefault(node, []).append(key)
        self.timeline.append((self.now, {node: tuple(keys) for node, keys in tenants.items()}))

    def _decide(
        self, infos: dict[str, JobInfo], previous: dict[str, NodeList]
    ) -> dict[str, NodeList]:
        started = self.stopwatch()
        answer = self.policy.optimize(infos, self._told, previous)
        self.decisions.append(self.stopwatch() - started)
        plan = make_plan(answer, infos, self.nodes, previous)
        if plan.refused:
            job, problem = next(iter(plan.refused.items()))
            raise ValueError(f"the policy's answer for {job}: {problem}")
        return {key: placed for key, placed in plan.allocations.items() if placed}

    def _info(self, job: SimulatedJob) -> JobInfo:
        limits, models = job.application.limits, job.models
        most = (job.batch or limits.maximum) // limits.local_min
        fixed = job.application.name in UNSCALED
        maximum = 1 if fixed else min(most, _MOST_REPLICAS)
        tenant = tenant_of(job.name)
        beside = self.requests.get(tenant, {})
        return JobInfo(
            key=job.name,
            tasks=(
                TaskInfo(
                    name=TASK,
                    # Admission refuses a job that asks for more than its maximum.
                    replicas=min(job.replicas, maximum),
                    minimum=1,
                    maximum=maximum,
                    resources={
                        GPU: UNIT,
                        **{name: amount * UNIT for name, amount in beside.items()},
                    },
                    constraints=Constraints(selector=((POOL, job.pool),) if job.pool else ()),
                ),
            ),
            preemptible=True,
            age=self.now - job.submitted,
            attained=job.attained,
            restarts=job.restarts,
            model=models.pop("", None),
            by_kind=models,
            explored=job.explored,
            remaining=job.remaining * limits.initial if self.remaining_known else None,
            account=self._queues.account(tenant, {}),
        )
