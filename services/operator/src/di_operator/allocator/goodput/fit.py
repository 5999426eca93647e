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

from di_operator.allocator.goodput.minimise import Matrix, Quadratic, Vector, minimise
from di_operator.allocator.goodput.model import UNEXPLORED
from di_operator.allocator.goodput.params import PerfParams

# Bounds the time of a fit: some 10 microseconds each and observation. Most need 10 to 20.
EVALUATIONS = 60
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
    `computing` is the part of it before the replicas synchronise. `kind` is that of the nodes,
    empty where it is not said.
    """

    nodes: int
    replicas: int
    samples: int
    computing: float
    iteration: float
    kind: str = ""


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


class _Root:
    """The root of a mean of squares: sums for its gradient and a curvature.

    The curvature leaves out what the residuals and the root itself are bent by: it is never
    negative, and right where the fit is. Of `bend` the lower triangle is filled.
    """

    __slots__ = ("bend", "pull", "square")

    def __init__(self, size: int) -> None:
        self.square = 0.0
        self.pull: Vector = [0.0] * size
        self.bend: Matrix = [[0.0] * size for _ in range(size)]

    def add(self, off: float, constant: float, slope: float) -> None:
        """Add a residual with its derivatives by both parameters of computing."""
        self.square += off * off
        pull, bend = self.pull, self.bend
        pull[0] += off * constant
        pull[1] += off * slope
        bend[0][0] += constant * constant
        bend[1][0] += slope * constant
        bend[1][1] += slope * slope

    def add_overlap(self, off: float, constant: float, slope: float, overlap: float) -> None:
        """The same with the derivative by gamma."""
        self.add(off, constant, slope)
        self.pull[_OVERLAPPING] += off * overlap
        row = self.bend[_OVERLAPPING]
        row[0] += overlap * constant
        row[1] += overlap * slope
        row[_OVERLAPPING] += overlap * overlap

    def add_links(
        self, links: int, off: float, by: tuple[float, float, float], alpha: float, beta: float
    ) -> None:
        """The derivatives of the same residual by its links, `by` being the other three."""
        constant, slope, overlap = by
        pull, row = self.pull, self.bend[_OVERLAPPING]
        pull[links] += off * alpha
        pull[links + 1] += off * beta
        row[links] += overlap * alpha
        row[links + 1] += overlap * beta
        row = self.bend[links]
        row[0] += alpha * constant
        row[1] += alpha * slope
        row[links] += alpha * alpha
        row = self.bend[links + 1]
        row[0] += beta * constant
        row[1] += beta * slope
        row[links] += beta * alpha
        row[links + 1] += beta * beta


class _Error:
    """The error of a vector of parameters, with its gradient and curvature."""

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

    def __call__(self, point: Sequence[float]) -> Quadratic:
        linear = [exp(x) for x in point[:_OVERLAPPING]]
        gamma = point[_OVERLAPPING]
        computing, whole = _Root(2), _Root(7)
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
            constant, slope = linear[0] / compute, slope / compute
            computing.add(log_compute - log_computing, constant, slope)
            off = both / gamma - log_iteration
            mixed = share * log_compute + rest * log_network
            by = constant * share, slope * share, (mixed - both / gamma) / gamma
            whole.add_overlap(off, *by)
            if links:
                whole.add_links(links, off, by, rest * alpha / network, rest * beta / network)
        return self._together(linear, gamma, computing, whole)

    def _together(
        self, linear: Sequence[float], gamma: float, computing: _Root, whole: _Root
    ) -> Quadratic:
        count = len(self._seen)
        error = sqrt(computing.square / count + _PERFECT)
        whole_error = sqrt(whole.square / count + _PERFECT)
        near, far = 1 / (count * error), 1 / (count * whole_error)
        gradient = [far * pull for pull in whole.pull]
        bend = [[far * each for each in row] for row in whole.bend]
        gradient[0] += near * computing.pull[0]
        gradient[1] += near * computing.pull[1]
        bend[0][0] += near * computing.bend[0][0]
        bend[1][0] += near * computing.bend[1][0]
        bend[1][1] += near * computing.bend[1][1]
        value = error + whole_error + _OVERLAP * (gamma - 1) ** 2
        gradient[_OVERLAPPING] += 2 * _OVERLAP * (gamma - 1)
        bend[_OVERLAPPING][_OVERLAPPING] += 2 * _OVERLAP
        for links in (_BETWEEN, _WITHIN):
            penalty = _RETROGRESSION * (linear[links + 1] / linear[links]) ** 2
            value += penalty
            gradient[links] -= 2 * penalty
            gradient[links + 1] += 2 * penalty
            bend[links][links] += 4 * penalty
            bend[links + 1][links + 1] += 4 * penalty
            bend[links + 1][links] -= 4 * penalty
        return Quadratic(value, gradient, bend)


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
