"""One simulation from its setting to its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from di_operator.allocator.model.policy import Policy
from di_operator.allocator.policies.registry import load_policy
from di_operator.allocator.sharing.fair_shares import (
    DEFAULT_AGEING,
    DEFAULT_SHARE,
    Shares,
    read_shares,
)
from di_simulator.application import Application
from di_simulator.cluster import Cluster
from di_simulator.conditions import Condition
from di_simulator.hardware import Group, make_nodes
from di_simulator.job import SimulatedJob
from di_simulator.reference.optimus import OptimusPolicy
from di_simulator.reference.tiresias import TiresiasPolicy
from di_simulator.results import Result, summarise
from di_simulator.workload import make_jobs, of_tenants, read_workload

# Policies under which jobs keep the batch size their owners fixed.
_FIXED = ("tiresias", "optimus")
# A workload that takes longer never ends: two months.
_LONGEST = 60 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is simulated. `period` in seconds."""

    workload: Path
    policy: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    groups: tuple[Group, ...] = (Group(nodes=16, gpus=4),)
    kinds_known: bool = True
    period: float = 60.0
    remaining_known: bool = False
    condition: Condition = Condition.IDEAL
    tenants: Sequence[str] = ()
    """Whose the jobs are, by turns; none: nobody's."""
    room: Mapping[str, int] = field(default_factory=dict)
    """What each node has beside GPUs."""
    requests: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By tenant: what a replica asks for beside its GPU."""
    fixed_batch: bool = False
    """Whether jobs keep the batch that their owners asked for, whatever the policy."""
    pools: Sequence[str] = ()
    """Which pool of nodes each job selects, by turns; "" is any node."""

    @property
    def shares(self) -> Shares | None:
        """The tenants' shares, if the policy's arguments say any. Raises ValueError."""
        given = self.arguments
        return read_shares(
            given.get("shares"),
            given.get("default_share", DEFAULT_SHARE),
            given.get("ageing_seconds", DEFAULT_AGEING),
        )


def run(
    setting: Setting,
    applications: Mapping[str, Application],
    *,
    stopwatch: Callable[[], float],
    report: Callable[[int, int], None] = lambda _done, _total: None,
    watch: Callable[[Cluster], None] = lambda _cluster: None,
) -> Result:
    """Simulate to the end; `report` gets the jobs done and all jobs, `watch` each round.

    Raises OSError, KeyError, ValueError or PolicyError for a setting that cannot be, and
    ValueError if jobs never end.
    """
    if any(min(group.nodes, group.gpus) < 1 for group in setting.groups) or not setting.period > 0:
        raise ValueError("nodes, GPUs and period must be above 0")
    for name in setting.pools:
        if name and name not in {group.pool for group in setting.groups}:
            raise ValueError(f"no node is in pool {name}")
    submissions = of_tenants(read_workload(setting.workload), setting.tenants)
    for group in setting.groups:
        for name in sorted({submission.application for submission in submissions}):
            if name not in applications or group.kind not in applications[name].times:
                where = f"nodes of kind {group.kind}" if group.kind else "nodes without a kind"
                raise ValueError(f"nothing is recorded of {name} on {where}")
    jobs = make_jobs(
        submissions,
        applications,
        adaptive=not setting.fixed_batch and setting.policy not in _FIXED,
        knows_kinds=setting.kinds_known,
        pools=setting.pools,
    )
    clock = _Clock()
    cluster = Cluster(
        policy=_policy(setting, jobs, clock),
        jobs=jobs,
        nodes=make_nodes(setting.groups, setting.room),
        requests=setting.requests,
        kinds_known=setting.kinds_known,
        stopwatch=stopwatch,
        remaining_known=setting.remaining_known,
        condition=setting.condition,
    )
    clock.cluster = cluster
    while not cluster.is_complete:
        cluster.step(setting.period)
        watch(cluster)
        report(sum(job.completed is not None for job in jobs), len(jobs))
        if cluster.now > _LONGEST:
            raise ValueError(f"{setting.policy} never completes some jobs")
    name = f"{setting.workload.parent.name}-{setting.workload.stem.removeprefix('workload-')}"
    return summarise(cluster, workload=name, policy=setting.policy)


@dataclass(slots=True)
class _Clock:
    """The cluster's time, for a policy that is made before the cluster."""

    cluster: Cluster | None = None

    def __call__(self) -> float:
        return self.cluster.now if self.cluster else 0.0


def _policy(setting: Setting, jobs: Sequence[SimulatedJob], clock: Callable[[], float]) -> Policy:
    if setting.policy == "tiresias":
        return TiresiasPolicy(clock)
    if setting.policy == "optimus":
        return OptimusPolicy(jobs)
    return load_policy(setting.policy, setting.arguments)
