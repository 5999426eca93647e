"""How fairly tenants fared in a simulation: Jain's index, and how soon they had room back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from di_simulator.results import Result
from di_simulator.workload import tenant_of


def gpus_by_tenant(result: Result) -> list[Counter[str]]:
    """The GPUs of each tenant, by round."""
    return [
        Counter(tenant_of(job) for jobs in nodes.values() for job in jobs)
        for _, nodes in result.timeline
    ]


def jain(amounts: Sequence[float]) -> float:
    """Jain's index (R. Jain et al., 1984): 1 where all are equal, 1/n where one has all.

    Of nothing at all it is 1.
    """
    squares = sum(amount * amount for amount in amounts)
    return sum(amounts) ** 2 / (len(amounts) * squares) if squares else 1.0


def jain_by_round(
    result: Result,
    weights: Mapping[str, float],
    parts: Mapping[str, float] = MappingProxyType({}),
) -> list[float | None]:
    """Jain's index of what tenants have for their weight, by round; None where fewer than two want
    more than they have. Who has all that its jobs can use is treated no worse than anybody.

    With `parts`, the dominant share that a replica of each tenant is, by these, not by GPUs.
    """
    found: list[float | None] = []
    for has, wanted in zip(gpus_by_tenant(result), result.wanted, strict=True):
        wanting = [name for name in weights if wanted[name] > has[name]]
        levels = [has[name] * parts.get(name, 1) / weights[name] for name in wanting]
        found.append(jain(levels) if len(levels) > 1 else None)
    return found


def reclaim_seconds(result: Result, guarantees: Mapping[str, int]) -> list[float]:
    """Seconds from a job's submission to its first GPU, of those that were submitted while their
    tenant had less than it is guaranteed, in GPUs."""
    has = gpus_by_tenant(result)
    times = [time for time, _ in result.timeline]
    running = [{job for jobs in nodes.values() for job in jobs} for _, nodes in result.timeline]
    found = []
    for job in result.jobs:
        tenant = tenant_of(job.name)
        before = Counter[str]()
        for time, counts in zip(times, has, strict=True):
            if time >= job.submitted:
                break
            before = counts
        first = next(
            (time for time, names in zip(times, running, strict=True) if job.name in names), None
        )
        if first is not None and before[tenant] < guarantees.get(tenant, 0):
            found.append(first - job.submitted)
    return found
