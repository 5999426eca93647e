"""The goodput model of Pollux (OSDI'21, equations 4 to 15): useful progress per second.

A job runs K replicas with m samples each and s accumulation steps between two synchronisations,
so its batch is M = K m (s + 1). Its goodput is samples per second times the share of a sample's
worth that is left when the batch is larger than the initial one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
from numpy.typing import NDArray

from di_operator.allocator.goodput.params import Batch, GoodputModel

Array = NDArray[np.float64]

# What an unexplored term of the network counts as: next to nothing, so that more is tried.
UNEXPLORED = 1e-8
# Batch sizes tried between the smallest and the largest, evenly in the logarithm.
BATCH_SIZES = 50
# Jobs are evaluated together, in blocks that stay in the processor's cache.
_BLOCK = 60_000
# Of the rounding of a batch to whole samples.
_ROUNDING = 1e-8


def accumulation_time(perf: Array, samples: Array) -> Array:
    """Seconds of computing for one replica; `perf` has the parameters on its first axis."""
    time: Array = perf[0] + perf[1] * samples
    return time


def network_time(perf: Array, nodes: Array, replicas: Array) -> Array:
    """Seconds of synchronising; `perf` has the parameters on its first axis."""
    further = np.maximum(replicas - 2, UNEXPLORED)
    between = perf[2] + perf[3] * further
    within = perf[4] + perf[5] * further
    time: Array = np.where(nodes > 1, between, np.where(replicas > 1, within, UNEXPLORED))
    return time


def goodputs(models: Sequence[GoodputModel], nodes: Array, replicas: Array) -> Array:
    """Best goodput of each model (rows) on each pair of nodes and replicas (columns).

    0 where the replicas would not get their smallest batch.
    """
    rows = max(1, _BLOCK // max(1, BATCH_SIZES * len(replicas)))
    found = np.empty((len(models), len(replicas)))
    for start in range(0, len(models), rows):
        block = models[start : start + rows]
        found[start : start + rows] = _grid(block, nodes, replicas)[0].max(axis=-1)
    return found


def best_batch(model: GoodputModel, nodes: int, replicas: int) -> Batch:
    """Return the batch size of the highest goodput on these replicas."""
    grid = _grid([model], np.array([float(nodes)]), np.array([float(replicas)]))
    rate, atomic, accumulation = (values[0, 0] for values in grid)
    best = int(rate.argmax())
    return Batch(
        goodput=float(rate[best]), atomic=int(atomic[best]), accumulation=int(accumulation[best])
    )


def _grid(
    models: Sequence[GoodputModel], nodes: Array, replicas: Array
) -> tuple[Array, Array, Array]:
    """Goodput, atomic batch and accumulation by model, configuration and batch size."""
    perf = np.array([astuple(model.perf) for model in models]).T[:, :, None]
    grad = np.array([astuple(model.grad) for model in models]).T[:, :, None, None]
    limits = np.array([astuple(model.limits) for model in models], dtype=float).T
    initial, maximum, local_min, local_max = limits[:, :, None]
    smallest = np.maximum(initial, local_min * replicas)
    steps = np.linspace(0, 1, BATCH_SIZES)
    # A replica count whose smallest batch is over the maximum has only that one, and goodput 0.
    ratio = np.maximum(maximum / smallest, 1.0)
    batch = smallest[..., None] * ratio[..., None] ** steps
    local = batch / replicas[:, None]
    ceiling = local_max[..., None]
    accumulation = np.ceil(local / ceiling - _ROUNDING) - 1
    # One replica with a larger batch needs two parts: the noise of the gradient is estimated
    # from the difference between parts.
    lonely = (replicas[:, None] == 1) & (local > initial[..., None] + _ROUNDING)
    accumulation = np.where(lonely, np.maximum(accumulation, 1), accumulation)
    atomic = np.ceil(local / (accumulation + 1) - _ROUNDING)
    computing = accumulation_time(perf[..., None], atomic)
    gamma = perf[6][..., None]
    synchronising = network_time(perf, nodes, replicas)[..., None]
    iteration = accumulation * computing + (computing**gamma + synchronising**gamma) ** (1 / gamma)
    scale = replicas[:, None] * atomic * (accumulation + 1) / initial[..., None]
    # (phi + M0) / (phi + M) times M / M0, with phi = var / sqr x M0.
    spread = grad[1] / scale + grad[0]
    gain = np.divide(grad[1] + grad[0], spread, out=np.ones_like(scale), where=spread > 0)
    valid = (
        (atomic >= local_min[..., None])
        & (atomic <= ceiling)
        & ((local_min * replicas <= maximum)[..., None])
    )
    rate = np.where(valid, gain / iteration * initial[..., None], 0.0)
    return rate, atomic, accumulation
