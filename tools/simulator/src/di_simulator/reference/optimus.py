"""Optimus (EuroSys'18) with an oracle: it is told the work left and the true step times.

Every job gets one replica, then each further GPU goes where it shortens the remaining time most.
Settings follow the Pollux artifact: batch sizes are those the owners fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_simulator.hardware import gpus
from di_simulator.job import SimulatedJob
from di_simulator.reference.tiresias import spread_largest_first

_PER_NODE = 4
_ROUNDING = 1e-8


class OptimusPolicy:
    """Reads the truth from the simulated jobs themselves."""

    def __init__(self, jobs: Sequence[SimulatedJob]) -> None:
        self._jobs = {job.name: job for job in jobs}

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        """Wait for the next round."""
        del job, nodes
        return WAIT

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        """Hand out GPUs one by one by their marginal gain."""
        left = sum(gpus(node) for node in nodes.values())
        counts: dict[str, int] = {}
        for key in jobs:
            counts[key] = min(1, left)
            left -= counts[key]
        gains = {key: self._gain(jobs[key], counts[key]) if left else 0.0 for key in jobs}
        while left > 0 and max(gains.values()) > 0:
            key = max(gains, key=lambda k: gains[k])
            counts[key] += 1
            left -= 1
            gains[key] = self._gain(jobs[key], counts[key]) if left else 0.0
        kept = {
            key: placed
            for key, placed in previous.items()
            if key in jobs and len(placed) == counts[key]
        }
        order = sorted(jobs, key=lambda k: counts[k])
        return spread_largest_first(jobs, nodes, kept, order, counts)

    def _gain(self, info: JobInfo, count: int) -> float:
        """Seconds of remaining time that one more replica saves."""
        if not count or count >= info.tasks[0].maximum:
            return 0.0
        job = self._jobs[info.key]
        return (self._step(job, count) - self._step(job, count + 1)) * self._iterations_left(job)

    @staticmethod
    def _iterations_left(job: SimulatedJob) -> float:
        last = job.application.epochs - 1
        batch = _batch(job)
        if job.epoch >= last:
            return 1.0
        application = job.application
        return application.iterations_after(batch, last) - application.iterations_after(
            batch, job.epoch
        )

    @staticmethod
    def _step(job: SimulatedJob, replicas: int) -> float:
        """Seconds of one iteration at the job's fixed batch size, on as few nodes as possible."""
        whole, rest = divmod(replicas, _PER_NODE)
        placement = (_PER_NODE,) * whole + ((rest,) if rest else ())
        limits = job.application.limits
        local = ceil(_batch(job) / replicas - _ROUNDING)
        accumulation = ceil(local / limits.local_max - _ROUNDING) - 1
        if replicas == 1:
            accumulation = max(1, accumulation)
        atomic = ceil(local / (accumulation + 1) - _ROUNDING)
        atomic = min(atomic, limits.maximum // (replicas * (accumulation + 1)))
        step, sync = job.application.step(placement, atomic)
        return step + (step - sync) * accumulation


def _batch(job: SimulatedJob) -> int:
    if job.batch is None:
        raise ValueError(f"{job.name}: Optimus needs jobs of fixed batch sizes")
    return job.batch
