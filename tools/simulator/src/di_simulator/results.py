"""What a simulation showed: figures, JSON and CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from di_simulator.cluster import Cluster
from di_simulator.hardware import gpus
from di_simulator.workload import tenant_of


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One job's life, in seconds since the start of the workload."""

    name: str
    application: str
    submitted: float
    completed: float
    restarts: int
    gpu_seconds: float

    @property
    def completion_time(self) -> float:
        """Job completion time (JCT): from submission to the end."""
        return self.completed - self.submitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A simulation in figures; all times in seconds.

    `utilisation` is the share of the cluster's GPU-seconds that were allocated up to the last
    completion, `decision` the processor time of one call of the policy.
    """

    workload: str
    policy: str
    jobs: int
    average: float
    p50: float
    p99: float
    makespan: float
    restarts: float
    utilisation: float
    decision_mean: float
    decision_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A finished simulation."""

    summary: Summary
    jobs: tuple[JobResult, ...]
    timeline: tuple[tuple[float, dict[str, tuple[str, ...]]], ...]
    """By round: the time, and each node's jobs, one entry a replica."""
    wanted: tuple[Mapping[str, int], ...]
    """By round: the most GPUs that the jobs of each tenant can use."""
    nodes: Mapping[str, int]
    """GPUs of each node."""

    @property
    def capacity(self) -> int:
        """GPUs of the cluster."""
        return sum(self.nodes.values())

    @property
    def by_tenant(self) -> dict[str, float]:
        """Average completion times in seconds; empty if jobs are nobody's."""
        times: dict[str, list[float]] = {}
        for job in self.jobs:
            if tenant := tenant_of(job.name):
                times.setdefault(tenant, []).append(job.completion_time)
        return {tenant: float(np.mean(found)) for tenant, found in sorted(times.items())}

    def write(self, folder: Path) -> None:
        """Write `<workload>-<policy>.json` and `.csv`. Raises OSError."""
        stem = folder / f"{self.summary.workload}-{self.summary.policy}"
        jobs = [asdict(job) | {"completion_time": job.completion_time} for job in self.jobs]
        content = {"summary": asdict(self.summary), "tenants": self.by_tenant, "jobs": jobs}
        stem.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n")
        with stem.with_suffix(".csv").open("w", newline="") as lines:
            writer = csv.DictWriter(lines, fieldnames=list(jobs[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(jobs)


def summarise(cluster: Cluster, *, workload: str, policy: str) -> Result:
    """Put a finished simulation into figures. Raises ValueError if a job is not complete."""
    jobs = tuple(
        JobResult(
            name=job.name,
            application=job.application.name,
            submitted=job.submitted,
            completed=_completed(job.name, job.completed),
            restarts=job.restarts,
            gpu_seconds=job.attained,
        )
        for job in cluster.jobs
    )
    decisions = cluster.decisions
    times = np.array([job.completion_time for job in jobs])
    makespan = max(job.completed for job in jobs)
    return Result(
        summary=Summary(
            workload=workload,
            policy=policy,
            jobs=len(jobs),
            average=float(times.mean()),
            p50=float(np.percentile(times, 50)),
            p99=float(np.percentile(times, 99)),
            makespan=makespan,
            restarts=sum(job.restarts for job in jobs) / len(jobs),
            utilisation=sum(job.gpu_seconds for job in jobs) / (cluster.capacity * makespan),
            decision_mean=float(np.mean(decisions)) if decisions else 0.0,
            decision_max=max(decisions, default=0.0),
        ),
        jobs=jobs,
        timeline=tuple(cluster.timeline),
        wanted=tuple(cluster.wanted),
        nodes={name: gpus(node) for name, node in cluster.nodes.items()},
    )


def _completed(name: str, time: float | None) -> float:
    if time is None:
        raise ValueError(f"{name} is not complete")
    return time
