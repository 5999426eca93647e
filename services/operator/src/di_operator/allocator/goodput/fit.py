"""Fitting the model's seven parameters to measured iterations (Pollux, OSDI'21, section 4.1).

The error is the sum of two root mean squared logarithmic errors, of the time to compute and of
the time of a whole iteration, plus the paper's regulariser. It is minimised over the logarithms
of alpha and beta, whose sizes differ by orders of magnitude, with an analytic gradient.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from di_operator.allocator.goodput.minimise import minimise
from di_operator.allocator.goodput.model import UNEXPLORED, Array
from di_operator.allocator.goodput.params import PerfParams

# Bounds the time of a fit: some 50 microseconds each.
EVALUATIONS = 150
_LARGEST = 1e4
_GAMMA = (1.0, 10.0)
_START_GAMMA = 1.001
# Weights of the paper's regulariser: towards little overlap, and towards no slow-down by more
# replicas where nothing says otherwise.
_OVERLAP = 1e-3
_RETROGRESSION = 1e-2
# How much dearer than links within a node those between nodes are taken to be, at least.
_BETWEEN_NODES = 1.1
# Keeps the gradient of a root finite where the fit is perfect.
_PERFECT = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A measured iteration, times in seconds.

    `iteration` is the time from one synchronisation to the next without accumulation steps;
    `computing` is the part of it before the replicas synchronise.
    """

    nodes: int
    replicas: int
    samples: int
    computing: float
    iteration: float


def fit(observations: Iterable[Observation]) -> PerfParams:
    """Return the parameters that explain the observations best; takes a bounded time.

    Terms that no observation tells anything about stay at next to nothing, so that the job is
    given a chance to try. Raises ValueError without observations.
    """
    seen = list(observations)
    if not seen:
        raise ValueError("nothing was observed")
    nodes = np.array([o.nodes for o in seen], dtype=float)
    replicas = np.array([o.replicas for o in seen], dtype=float)
    samples = np.array([o.samples for o in seen], dtype=float)
    computing = np.array([o.computing for o in seen])
    iteration = np.array([o.iteration for o in seen])
    start, lower, upper = _bounds(nodes, replicas, samples, computing, iteration)

    log_computing, log_iteration = np.log(computing), np.log(iteration)
    apart, together = nodes > 1, (nodes <= 1) & (replicas > 1)
    further = np.maximum(replicas - 2, UNEXPLORED)
    count = len(seen)

    def objective(point: Array) -> tuple[float, Array]:
        linear = np.exp(point[:6])
        gamma = point[6]
        gradient = np.zeros(7)
        compute = linear[0] + linear[1] * samples
        alpha = np.where(apart, linear[2], np.where(together, linear[4], UNEXPLORED))
        beta = np.where(apart, linear[3], np.where(together, linear[5], UNEXPLORED)) * further
        network = alpha + beta
        log_compute, log_network = np.log(compute), np.log(network)
        both = np.logaddexp(gamma * log_compute, gamma * log_network)
        share = np.exp(gamma * log_compute - both)

        off = log_compute - log_computing
        error = float(np.sqrt((off @ off) / count + _PERFECT))
        whole_off = both / gamma - log_iteration
        whole_error = float(np.sqrt((whole_off @ whole_off) / count + _PERFECT))
        pull, whole_pull = off / (count * error), whole_off / (count * whole_error)

        by_compute = (pull + whole_pull * share) / compute
        gradient[0] = linear[0] * by_compute.sum()
        gradient[1] = linear[1] * (by_compute @ samples)
        by_network = whole_pull * (1 - share) / network
        gradient[2] = by_network[apart] @ alpha[apart]
        gradient[3] = by_network[apart] @ beta[apart]
        gradient[4] = by_network[together] @ alpha[together]
        gradient[5] = by_network[together] @ beta[together]
        mixed = share * log_compute + (1 - share) * log_network
        gradient[6] = whole_pull @ (mixed / gamma - both / gamma**2)

        value = error + whole_error + _OVERLAP * (gamma - 1) ** 2
        gradient[6] += 2 * _OVERLAP * (gamma - 1)
        for first in (2, 4):
            penalty = _RETROGRESSION * (linear[first + 1] / linear[first]) ** 2
            value += penalty
            gradient[first] -= 2 * penalty
            gradient[first + 1] += 2 * penalty
        return float(value), gradient

    found = minimise(objective, start, lower=lower, upper=upper, evaluations=EVALUATIONS)
    alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r = (float(v) for v in np.exp(found[:6]))
    if not apart.any():
        alpha_n, beta_n = (
            max(alpha_n, alpha_r * _BETWEEN_NODES),
            max(beta_n, beta_r * _BETWEEN_NODES),
        )
    return PerfParams(
        alpha_c=alpha_c,
        beta_c=beta_c,
        alpha_n=alpha_n,
        beta_n=beta_n,
        alpha_r=alpha_r,
        beta_r=beta_r,
        gamma=float(found[6]),
    )


def _bounds(
    nodes: Array, replicas: Array, samples: Array, computing: Array, iteration: Array
) -> tuple[Array, Array, Array]:
    """Start and bounds; what the observations cannot tell is pinned by equal bounds."""
    low = np.log(UNEXPLORED)
    lower = np.array([low] * 6 + [_GAMMA[0]])
    upper = np.array([np.log(_LARGEST)] * 6 + [_GAMMA[1]])
    half = computing.mean() / 2
    waiting = np.maximum(iteration - computing, 1e-3 * iteration)
    start = np.array([np.log(half), np.log(half / samples.mean()), low, low, low, low, 0.0])
    start[6] = _START_GAMMA
    if len(np.unique(samples)) == 1:
        # One size cannot tell the constant from the slope: half of the time to each.
        lower[0] = upper[0] = start[0]
    for first, links in ((2, nodes > 1), (4, (nodes <= 1) & (replicas > 1))):
        if links.any():
            start[first] = np.log(waiting[links].mean())
        else:
            upper[first] = lower[first]
        if links.any() and (replicas > 2).any():
            start[first + 1] = start[first] - np.log(10)
        else:
            upper[first + 1] = lower[first + 1]
    return start, lower, upper
