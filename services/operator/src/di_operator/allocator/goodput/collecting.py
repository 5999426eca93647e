"""Throughput of collectors and learners together, in environment steps per second.

C collectors produce C c / (1 + n (C - 1)) steps a second. Here c is the rate of one alone, and n
the share that it loses to every further one. L learners absorb X_lrn: their samples per second,
divided by the samples a step is used for. The throughput is the smooth minimum of both, (X_env^-g
+ X_lrn^-g)^(-1/g). Beyond the knee C* = X_lrn / c a collector adds (nearly) nothing.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from di_operator.allocator.goodput.params import Collecting

# The g of the smooth minimum: how soon the faster side stops to matter. At the knee 4 gives 84 %
# of either rate.
SHARPNESS: Final = 4.0
_ROUNDING = 1e-9


def produced(collecting: Collecting, collectors: int) -> float:
    """Return the environment steps per second of so many collectors."""
    if collectors <= 0:
        return 0.0
    return collectors * collecting.rate / (1 + collecting.contention * (collectors - 1))


def throughput(collecting: Collecting, goodput: float, collectors: int) -> float:
    """Return the environment steps per second that are both produced and absorbed.

    `goodput` is that of the learners.
    """
    delivered = produced(collecting, collectors)
    absorbed = goodput / collecting.samples_per_step
    low, high = min(absorbed, delivered), max(absorbed, delivered)
    # As a ratio of the two, neither power can overflow or vanish.
    return low * (1 + (low / high) ** SHARPNESS) ** (-1 / SHARPNESS) if low > 0 else 0.0


def knee(collecting: Collecting, goodput: float) -> int:
    """Return the number of collectors beyond which the learners limit the job; at least one."""
    absorbed = goodput / collecting.samples_per_step
    return max(1, ceil(absorbed / collecting.rate - _ROUNDING))
