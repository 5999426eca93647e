"""What a size is worth to the cluster, for all jobs in one currency.

Two objectives. Without knowledge of the work left: how much slower a job is than on a fair share,
summed over the jobs (the harmonic mean of Pollux, OSDI'21, equation 16), which starves nobody.
Where every job says how much work is left: the marginal costs of heSRPT (B. Berg et al., 2020)
with each job's measured curve, which serves short jobs first and still shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from di_operator.allocator.goodput.model import Array
from di_operator.allocator.job import JobInfo

# A share of nothing is divided by all the same.
_SMALLEST = 1e-300
# Pollux's guard against a division by zero: a job without replicas is 1000 times slower.
_NOTHING = 1e-3
# heSRPT's exponent of the speed-up curve: what k^p makes of k replicas.
_CONCAVITY = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """A change of replicas: the job stands still for `restart` of the next `horizon` seconds."""

    restart: float
    horizon: float

    @property
    def left(self) -> float:
        """The share of the horizon that is left to work in."""
        return 1 - self.restart / self.horizon


def fair_values(sizes: Array, speeds: Array, *, fair: float, present: int, costs: Costs) -> Array:
    """The negative slow-down against the fair share of replicas, by size."""
    highest = np.maximum.accumulate(speeds)
    # Less than one replica is no size, but a share of the time on one.
    share = float(np.interp(fair, sizes, highest))
    relative = _charged(sizes, speeds, present, costs) / max(share, _SMALLEST)
    values: Array = -1 / (relative + _NOTHING)
    return values


def short_first_values(
    sizes: Array, speeds: Array, *, weight: float, present: int, costs: Costs
) -> Array:
    """The weighted speed-up over the smallest size, by size."""
    values: Array = weight * _charged(sizes, speeds, present, costs) / speeds[1]
    return values


def short_first_weights(
    jobs: Mapping[str, JobInfo], alone: Mapping[str, float]
) -> dict[str, float]:
    """Weights by the order of remaining work; `alone`: seconds left on the smallest size.

    The k-th longest weighs [k^(1/(1-p)) - (k-1)^(1/(1-p))]^(1-p).
    """
    order = sorted(jobs, key=lambda key: (-alone[key], key))
    power = 1 / (1 - _CONCAVITY)
    return {
        key: (rank**power - (rank - 1) ** power) ** (1 - _CONCAVITY)
        for rank, key in enumerate(order, start=1)
    }


def _charged(sizes: Array, speeds: Array, present: int, costs: Costs) -> Array:
    return np.where(sizes == present, speeds, speeds * costs.left)
