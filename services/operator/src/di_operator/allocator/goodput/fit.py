"""Fitting the model's seven parameters to measured iterations (Pollux, OSDI'21, section 4.1).

The error is the sum of two root mean squared logarithmic errors, of the time to compute and of
the time of a whole iteration, plus the paper's regulariser. It is minimised over the logarithms
of alpha and beta, whose sizes differ by orders of magnitude, with an analytic gradient and the
curvature of Gauss and Newton.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

from di_operator.allocator.goodput.minimise import Quadratic, Vector, minimise
from di_operator.allocator.goodput.model import UNEXPLORED
from di_operator.allocator.goodput.params import PerfParams

# Bounds the time of a fit: some 10 microseconds each and observation. Most need 10 to 20.
EVALUATIONS = 60
_LARGEST = 1e4
_GAMMA = (1.0, 10.0)
_START_GAMMA = 1.001
# Weights of the paper's regulariser: towards little overlap, and towards no slow-down by more
# replicas where no observation shows one.
_OVERLAP = 1e-3
_RETROGRESSION = 1e-2
# Least factor by which links between nodes are taken to be slower than those within one.
_BETWEEN_NODES = 1.1
# Keeps the gradient of a root finite where the fit is perfect.
_PERFECT = 1e-12
# The position of each alpha in the vector of parameters; its beta follows.
_COMPUTE, _BETWEEN, _WITHIN, _OVERLAPPING = 0, 2, 4, 6
# By the links of an observation: the parameters its iteration depends on, and where the products
# of their derivatives belong. Without links both are empty.
_ROWS = {
    links: (_COMPUTE, _COMPUTE + 1, at, at + 1, _OVERLAPPING)
    for links, at in ((0, _BETWEEN), (_BETWEEN, _BETWEEN), (_WITHIN, _WITHIN))
}
_PLACES = {
    links: [(row, column) for row in rows for column in rows if column <= row]
    for links, rows in _ROWS.items()
}
# Samples, replicas beyond two, and the logarithm of the measured time of one observation.
_Iteration = tuple[float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A measured iteration, times in seconds.

    `iteration` is the time from one synchronisation to the next without accumulation steps.
    `computing` is the part of it before the replicas synchronise. `kind` is that of the nodes,
    empty where it is not reported.
    """

    nodes: int
    replicas: int
    samples: int
    computing: float
    iteration: float
    kind: str = ""


def fit(observations: Iterable[Observation]) -> PerfParams:
    """Return the parameters that explain the observations best; takes a bounded time.

    Terms that no observation informs stay at next to nothing, so that the job is given a chance to
    try. Raises ValueError without observations.
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
    """The error of a vector of parameters, with its gradient and curvature.

    The curvature leaves out the second derivatives of the residuals and of the roots
    (Gauss-Newton). So it is never negative, and exact where the fit is exact.
    """

    def __init__(self, seen: Sequence[Observation]) -> None:
        self._computing = [(float(o.samples), log(o.computing)) for o in seen]
        self._iterations: dict[int, list[_Iteration]] = {}
        for o in seen:
            self._iterations.setdefault(_links(o), []).append(
                (float(o.samples), max(o.replicas - 2, UNEXPLORED), log(o.iteration))
            )

    def __call__(self, point: Sequence[float]) -> Quadratic:
        linear = [exp(x) for x in point[:_OVERLAPPING]]
        gamma, count = point[_OVERLAPPING], len(self._computing)
        square, *sums = _computing_sums(self._computing, linear)
        error = sqrt(square / count + _PERFECT)
        weight = 1 / (count * error)
        constant, slope, both_constant, mixed, both_slope = [weight * each for each in sums]
        gradient = [constant, slope, 0.0, 0.0, 0.0, 0.0, 2 * _OVERLAP * (gamma - 1)]
        bend = [[0.0] * (row + 1) for row in range(_OVERLAPPING + 1)]
        bend[0][0] = both_constant
        bend[1][:] = mixed, both_slope
        bend[_OVERLAPPING][_OVERLAPPING] = 2 * _OVERLAP
        found = [
            (links, _iteration_sums(seen, linear, gamma, links))
            for links, seen in self._iterations.items()
        ]
        whole_error = sqrt(sum([square for _, (square, _, _) in found]) / count + _PERFECT)
        weight = 1 / (count * whole_error)
        for links, (_, pulls, bends) in found:
            for row, pull in zip(_ROWS[links], pulls, strict=True):
                gradient[row] += weight * pull
            for (row, column), product in zip(_PLACES[links], bends, strict=True):
                bend[row][column] += weight * product
        value = error + whole_error + _OVERLAP * (gamma - 1) ** 2
        for links in (_BETWEEN, _WITHIN):
            penalty = _RETROGRESSION * (linear[links + 1] / linear[links]) ** 2
            value += penalty
            gradient[links] -= 2 * penalty
            gradient[links + 1] += 2 * penalty
            bend[links][links] += 4 * penalty
            bend[links + 1][links + 1] += 4 * penalty
            bend[links + 1][links] -= 4 * penalty
        return Quadratic(value, gradient, bend)


def _computing_sums(
    seen: Iterable[tuple[float, float]], linear: Sequence[float]
) -> tuple[float, float, float, float, float, float]:
    """Return sums over the times to compute: the squares of the residuals, their products with the
    derivatives by both parameters, and the lower triangle of the products of the derivatives.
    """
    alpha, beta = linear[0], linear[1]
    square = by_constant = by_slope = constants = mixed = slopes = 0.0
    for samples, measured in seen:
        slope = beta * samples
        compute = alpha + slope
        off = log(compute) - measured
        constant = alpha / compute
        slope /= compute
        square += off * off
        by_constant += off * constant
        by_slope += off * slope
        constants += constant * constant
        mixed += slope * constant
        slopes += slope * slope
    return square, by_constant, by_slope, constants, mixed, slopes


def _iteration_sums(
    seen: Iterable[_Iteration], linear: Sequence[float], gamma: float, links: int
) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Return the same sums for iterations over the same links, by alpha and beta of computing,
    those of the links, and gamma. It is written out because it runs dozens of times for each
    report.
    """
    alpha_c, beta_c = linear[0], linear[1]
    alpha, beta_each = (linear[links], linear[links + 1]) if links else (UNEXPLORED, UNEXPLORED)
    square = p0 = p1 = p2 = p3 = p4 = 0.0
    b00 = b10 = b11 = b20 = b21 = b22 = 0.0
    b30 = b31 = b32 = b33 = b40 = b41 = b42 = b43 = b44 = 0.0
    for samples, further, measured in seen:
        slope = beta_c * samples
        compute = alpha_c + slope
        far = beta_each * further
        network = alpha + far
        log_compute, log_network = log(compute), log(network)
        # log(compute^gamma + network^gamma), with the larger term factored out.
        apart = gamma * (log_network - log_compute)
        if apart < 0:
            both = gamma * log_compute + log(1 + exp(apart))
        else:
            both = gamma * log_network + log(1 + exp(-apart))
        iteration = both / gamma
        off = iteration - measured
        share = exp(gamma * log_compute - both)
        rest = 1 - share
        overlap = (share * log_compute + rest * log_network - iteration) / gamma
        share /= compute
        constant, slope = alpha_c * share, slope * share
        square += off * off
        p0 += off * constant
        p1 += off * slope
        p4 += off * overlap
        b00 += constant * constant
        b10 += slope * constant
        b11 += slope * slope
        b40 += overlap * constant
        b41 += overlap * slope
        b44 += overlap * overlap
        if links:
            rest /= network
            near, far = rest * alpha, rest * far
            p2 += off * near
            p3 += off * far
            b20 += near * constant
            b21 += near * slope
            b22 += near * near
            b30 += far * constant
            b31 += far * slope
            b32 += far * near
            b33 += far * far
            b42 += overlap * near
            b43 += overlap * far
    bends = b00, b10, b11, b20, b21, b22, b30, b31, b32, b33, b40, b41, b42, b43, b44
    return square, (p0, p1, p2, p3, p4), bends


def _links(observation: Observation) -> int:
    """Return the position of the alpha that the observation informs; 0: none, because nothing was
    synchronised.
    """
    if observation.nodes > 1:
        return _BETWEEN
    return _WITHIN if observation.replicas > 1 else 0


def _bounds(seen: Sequence[Observation]) -> tuple[Vector, Vector, Vector]:
    """Return start and bounds; parameters without observations are pinned by equal bounds."""
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
