"""The value of a size to the cluster, in one unit for all jobs.

There are two objectives. Without knowledge of the work left, it is each job's slow-down against a
fair share, summed over the jobs (after Pollux, OSDI'21, equation 16). This starves no job. Where
most jobs report how much work is left, it is the marginal cost of heSRPT (B. Berg et al., 2020)
with each job's measured curve. This serves short jobs first and still shares.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

# Pollux's guard against a division by zero: a job without replicas is 1000 times slower.
_NOTHING: Final = 1e-3
# The same guard for a job that cannot have as little as its fair share. It gets more than that for
# some of the time, so a while with nothing is not a disaster. Values from 0.2 to 0.6 are nearly
# equally good.
_TURN: Final = 0.34
# heSRPT's exponent of the speed-up curve: k replicas are as fast as k^p. With a lower one longer
# jobs wait less for shorter ones, and the longest end last, alone on more replicas than they use
# well.
_CONCAVITY: Final = 0.3
# Longest time, in horizons, that a change of replicas is taken to last.
_QUIET: Final = 2
# Exponent of the speed-up of a job that does not report its speed.
_UNKNOWN: Final = 0.65
# Bound of the ratio of two speeds: ratios of what jobs report stay finite, and every price in
# between can be found.
_LARGEST_RATIO: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The cost of a change of replicas: the job stands still for `restart` of the next `horizon`
    seconds.
    """

    restart: float
    horizon: float

    def restoring(self, seconds: float) -> Costs:
        """Return the costs of a job that reports how long it takes to continue from a checkpoint.

        At most half of the horizon is believed, so that a false report cannot make a job
        immovable. At least `restart` counts, because pods take that long in any case.
        """
        return replace(self, restart=max(self.restart, min(seconds, self.horizon / 2)))

    def lasting(self, seconds: float) -> Costs:
        """Return the costs of a change that is taken to last so many seconds, within bounds."""
        most = _QUIET * self.horizon
        return replace(self, horizon=max(self.horizon, min(seconds, most)))

    def of_stop(self, unsaved: float) -> float:
        """Return the share of the horizon's work that a job loses by a stop, 0 to 1.

        A stop costs the time of the restart and the work since the last checkpoint, `unsaved`
        seconds. The share is at most 1, so that no job is immovable.
        """
        return min(1.0, (self.restart + unsaved) / self.horizon)

    def charged(self, sizes: Sequence[int], speeds: Sequence[float], present: int) -> list[float]:
        """Return the speeds, less the cost of a change to each size."""
        left = 1 - self.restart / self.horizon
        return [
            speed if size == present else speed * left
            for size, speed in zip(sizes, speeds, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A job's speeds by size on one kind of node, which is that `share` of its usable capacity."""

    share: float
    sizes: Sequence[int]
    speeds: Sequence[float]


def fair_speed(parts: Iterable[Part], *, fair: float) -> float:
    """Return the speed on a fair share of so many replicas: the mean over the kinds of nodes."""
    return sum(
        part.share * _between(part.sizes, list(accumulate(part.speeds, max)), fair)
        for part in parts
    )


def speed_of_one(parts: Iterable[Part]) -> float:
    """Return the speed of one replica, derived from the smallest size with any speed: the mean
    over the kinds of nodes.
    """
    return sum(part.share * _of_one(part.sizes, part.speeds) for part in parts)


def ratio_of(speed: float, other: float) -> float:
    """Return how many times as fast as another a speed is, within bounds; 0 for none."""
    if speed <= 0:
        return 0.0
    if other <= 0:
        return _LARGEST_RATIO
    return max(1 / _LARGEST_RATIO, min(speed / other, _LARGEST_RATIO))


def fair_values(
    sizes: Sequence[int],
    speeds: Sequence[float],
    *,
    share: float,
    takes_turns: bool,
    fairness: float,
    present: int,
    costs: Costs,
) -> list[float]:
    """Return the negative slow-down against the speed on a fair share, to the power `fairness`.

    `share` is that speed (`fair_speed`). 1 is Pollux's harmonic mean; less leans towards
    throughput, more towards equality. A job whose smallest size is above its share `takes_turns`
    with the others.
    """
    nothing = _TURN if takes_turns else _NOTHING
    return [
        -1 / (ratio_of(speed, share) ** fairness + (_NOTHING if speed else nothing))
        for speed in costs.charged(sizes, speeds, present)
    ]


def short_first_values(
    sizes: Sequence[int], speeds: Sequence[float], *, one: float, present: int, costs: Costs
) -> list[float]:
    """Return the speed-up over `one` replica (`speed_of_one`)."""
    return [ratio_of(speed, one) for speed in costs.charged(sizes, speeds, present)]


def assumed_speeds(sizes: Sequence[int], *, silent: bool) -> tuple[float, ...]:
    """Return the speeds of a job that has not reported any, in those of one replica.

    For a job that has just started, perfect scaling is assumed, so that it is tried. A job that
    has had its time to report and is `silent` may use many replicas badly.
    """
    return tuple(size**_UNKNOWN if silent else float(size) for size in sizes)


def short_first_weights(alone: Mapping[str, float]) -> dict[str, float]:
    """Return weights by the order of remaining work; `alone`: seconds left on one replica.

    The k-th longest weighs [k^(1/(1-p)) - (k-1)^(1/(1-p))]^(1-p).
    """
    order = sorted(alone, key=lambda key: (-alone[key], key))
    power = 1 / (1 - _CONCAVITY)
    return {
        key: (rank**power - (rank - 1) ** power) ** (1 - _CONCAVITY)
        for rank, key in enumerate(order, start=1)
    }


def _of_one(sizes: Sequence[int], speeds: Sequence[float]) -> float:
    found = (speed / size for size, speed in zip(sizes, speeds, strict=True) if speed > 0)
    return next(found, 0.0)


def _between(xs: Sequence[int], ys: Sequence[float], x: float) -> float:
    """Return the value at x, linear between the points; beyond the last, that of the last."""
    at = bisect_left(xs, x)
    if at >= len(xs):
        return ys[-1]
    if at == 0:
        return ys[0]
    part = (x - xs[at - 1]) / (xs[at] - xs[at - 1])
    return ys[at - 1] + part * (ys[at] - ys[at - 1])
