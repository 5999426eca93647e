"""Fitting the model's seven parameters to measured iterations (Pollux, OSDI'21, section 4.1).

The error is the sum of two root mean squared logarithmic errors, of the time to compute and of
the time of a whole iteration, plus the paper's regulariser. It is minimised over the logarithms
of alpha and beta, whose sizes differ by orders of magnitude, with an analytic gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

from di_operator.allocator.goodput.minimise import Vector, minimise
from di_operator.allocator.goodput.model import UNEXPLORED
from di_operator.allocator.goodput.params import PerfParams

# Bounds the time of a fit: some 3 microseconds each and observation.
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
# The places of alpha in the vector of parameters, beta follows each.
_COMPUTE, _BETWEEN, _WITHIN, _OVERLAPPING = 0, 2, 4, 6


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
    start, lower, upper = _bounds(seen)
    found = minimise(_Error(seen), start, lower=lower, upper=upper, evaluations=EVALUATIONS)
    alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r = map(exp, found[:_OVERLAPPING])
    if not any(_links(o) == _BETWEEN for o in seen):
        alpha_n = max(alpha_n, alpha_r * _BETWEEN_NODES)
        beta_n = max(beta_n, beta_r * _BETWEEN_NODES)
    return PerfParams(
        alpha_c=alpha_c,
        beta_c=beta_c,
        alpha_n=alpha_n,
        beta_n=beta_n,
        alpha_r=alpha_r,
        beta_r=beta_r,
        gamma=found[_OVERLAPPING],
    )


class _Error:
    """The error of a vector of parameters, and its gradient."""

    def __init__(self, seen: Sequence[Observation]) -> None:
        self._seen = [
            (
                _links(o),
                float(o.samples),
                max(o.replicas - 2, UNEXPLORED),
                log(o.computing),
                log(o.iteration),
            )
            for o in seen
        ]

    def __call__(self, point: Sequence[float]) -> tuple[float, Vector]:
        linear = [exp(x) for x in point[:_OVERLAPPING]]
        gamma = point[_OVERLAPPING]
        # Of both errors: sum of squares, and half its gradient.
        square, whole_square = 0.0, 0.0
        pull, whole_pull = [0.0] * 7, [0.0] * 7
        for links, samples, further, log_computing, log_iteration in self._seen:
            slope = linear[1] * samples
            compute = linear[0] + slope
            alpha, beta = UNEXPLORED, UNEXPLORED * further
            if links:
                alpha, beta = linear[links], linear[links + 1] * further
            network = alpha + beta
            log_compute, log_network = log(compute), log(network)
            # log(compute^gamma + network^gamma), the larger one taken out.
            high, low = max(log_compute, log_network), min(log_compute, log_network)
            both = gamma * high + log(1 + exp(gamma * (low - high)))
            share = exp(gamma * log_compute - both)
            rest = 1 - share

            off = log_compute - log_computing
            square += off * off
            pull[0] += off * linear[0] / compute
            pull[1] += off * slope / compute

            off = both / gamma - log_iteration
            whole_square += off * off
            whole_pull[0] += off * share * linear[0] / compute
            whole_pull[1] += off * share * slope / compute
            if links:
                whole_pull[links] += off * rest * alpha / network
                whole_pull[links + 1] += off * rest * beta / network
            mixed = share * log_compute + rest * log_network
            whole_pull[_OVERLAPPING] += off * (mixed - both / gamma) / gamma

        count = len(self._seen)
        error = sqrt(square / count + _PERFECT)
        whole_error = sqrt(whole_square / count + _PERFECT)
        gradient = [
            p / (count * error) + w / (count * whole_error)
            for p, w in zip(pull, whole_pull, strict=True)
        ]
        value = error + whole_error + _OVERLAP * (gamma - 1) ** 2
        gradient[_OVERLAPPING] += 2 * _OVERLAP * (gamma - 1)
        for links in (_BETWEEN, _WITHIN):
            penalty = _RETROGRESSION * (linear[links + 1] / linear[links]) ** 2
            value += penalty
            gradient[links] -= 2 * penalty
            gradient[links + 1] += 2 * penalty
        return value, gradient


def _links(observation: Observation) -> int:
    """Which alpha the observation tells about; 0: neither, there was nothing to synchronise."""
    if observation.nodes > 1:
        return _BETWEEN
    return _WITHIN if observation.replicas > 1 else 0


def _bounds(seen: Sequence[Observation]) -> tuple[Vector, Vector, Vector]:
    """Start and bounds; what the observations cannot tell is pinned by equal bounds."""
    least = log(UNEXPLORED)
    lower = [least] * 6 + [_GAMMA[0]]
    upper = [log(_LARGEST)] * 6 + [_GAMMA[1]]
    half = log(sum(o.computing for o in seen) / len(seen) / 2)
    samples = sum(o.samples for o in seen) / len(seen)
    start = [half, half - log(samples), *[least] * 4, _START_GAMMA]
    if len({o.samples for o in seen}) == 1:
        # One size cannot tell the constant from the slope: half of the time to each.
        lower[_COMPUTE] = upper[_COMPUTE] = start[_COMPUTE]
    for links in (_BETWEEN, _WITHIN):
        waits = [
            max(o.iteration - o.computing, 1e-3 * o.iteration) for o in seen if _links(o) == links
        ]
        if waits:
            start[links] = log(sum(waits) / len(waits))
        else:
            upper[links] = lower[links]
        if waits and any(o.replicas > 2 for o in seen):
            start[links + 1] = start[links] - log(10)
        else:
            upper[links + 1] = lower[links + 1]
    return start, lower, upper
