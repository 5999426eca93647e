"""The goodput model of Pollux (OSDI'21, equations 4 to 15): useful progress per second.

A job runs K replicas with m samples each and s accumulation steps between two synchronisations, so
its batch is M = K m (s + 1). Its goodput is its samples per second times its statistical
efficiency. That is the share of a sample's worth that is left when the batch is larger than the
initial one.

It is plain Python: numpy would add a third to the operator's image, and would not be faster here.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Final

from di_operator.allocator.goodput.params import Batch, GoodputModel, PerfParams

# Value of a network term without observations: next to nothing, so that more is tried.
UNEXPLORED: Final = 1e-8
# Number of batch sizes between the smallest and the largest, evenly spaced in the logarithm.
_LAST: Final = 49
# Every seventh is tried, then the neighbours of the best, ever closer: goodput has a single
# maximum, except for rounding.
_COARSE: Final = range(0, _LAST + 1, 7)
_CLOSER: Final = (3, 1)
# Tolerance for a batch that is rounded to whole samples.
_ROUNDING: Final = 1e-8


def network_seconds(perf: PerfParams, nodes: int, replicas: int) -> float:
    """Return the seconds of synchronising after each iteration."""
    further = max(replicas - 2, UNEXPLORED)
    if nodes > 1:
        return perf.alpha_n + perf.beta_n * further
    if replicas > 1:
        return perf.alpha_r + perf.beta_r * further
    return UNEXPLORED


def best_batch(model: GoodputModel, nodes: int, replicas: int) -> Batch:
    """Return the batch size of the highest goodput on these replicas.

    Its goodput is 0 where the replicas would not get their smallest batch each.
    """
    limits = model.limits
    if limits.local_min * replicas > limits.maximum:
        return Batch(goodput=0.0, atomic=limits.local_min, accumulation=0)
    trial = _trial(model, nodes, replicas)
    best = max(map(trial, _COARSE))
    for distance in _CLOSER:
        middle = best[1]
        for at in (middle - distance, middle + distance):
            if 0 <= at <= _LAST:
                best = max(best, trial(at))
    return Batch(goodput=best[0], atomic=best[2], accumulation=best[3])


def goodput(model: GoodputModel, nodes: int, replicas: int) -> float:
    """Return the samples of the initial batch per second, at the best batch size."""
    return best_batch(model, nodes, replicas).goodput


def _trial(
    model: GoodputModel, nodes: int, replicas: int
) -> Callable[[int], tuple[float, int, int, int]]:
    """Return a function from the index of a batch size to goodput, that index, atomic batch and
    accumulation.
    """
    perf, grad, limits = model.perf, model.grad, model.limits
    # All that does not depend on the batch is computed here: the rest runs hundreds of times for
    # each job.
    alpha, beta, gamma, inverse = perf.alpha_c, perf.beta_c, perf.gamma, 1 / perf.gamma
    network = network_seconds(perf, nodes, replicas) ** gamma
    initial, local_min, local_max = limits.initial, limits.local_min, limits.local_max
    smallest = max(initial, local_min * replicas)
    first, ratio = smallest / replicas, max(limits.maximum / smallest, 1.0)
    # The gain is (phi + M0) / (phi + M) x M, with phi = var / sqr x M0. A gradient of zero counts
    # as one without noise. Only the parts of both in their sum are used, one of which is at least
    # a half: whatever their size, nothing overflows and no divisor vanishes.
    both = grad.sqr + grad.var
    variance = grad.var / both if both else 0.0
    signal, noise = 1.0 - variance, variance * initial / replicas

    def trial(at: int) -> tuple[float, int, int, int]:
        local = first * ratio ** (at / _LAST)
        # A share of the largest batch that is below the rounding still needs a part of its own.
        accumulation = max(ceil(local / local_max - _ROUNDING), 1) - 1
        if replicas == 1 and accumulation < 1 and local > initial + _ROUNDING:
            # One replica with a larger batch needs two parts: the noise of the gradient is
            # estimated from the difference between parts.
            accumulation = 1
        parts = accumulation + 1
        atomic = ceil(local / parts - _ROUNDING)
        if not local_min <= atomic <= local_max:
            return 0.0, at, atomic, accumulation
        computing = alpha + beta * atomic
        seconds = (computing**gamma + network) ** inverse
        if accumulation:
            seconds += accumulation * computing
        return initial / ((noise / (atomic * parts) + signal) * seconds), at, atomic, accumulation

    return trial
