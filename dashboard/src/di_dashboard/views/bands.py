"""Curves of several jobs for one plot: smoothing, bands over seeds, fewer points. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from di_cli.views.scores import bootstrap_interval, interquartile_mean

Point = tuple[float, float]
Curve = Sequence[Point]

MOST_POINTS: Final = 400
"""Maximum number of points of a curve."""
PLACES: Final = 100
"""Number of places of a band."""
RESAMPLES: Final = 1_000
"""Of an interval at each place."""


class BandPoint(NamedTuple):
    """The interquartile mean over seeds at a place, and its 95 % bootstrap interval."""

    place: float
    mean: float
    low: float
    high: float


def smoothed(curve: Curve, weight: float) -> Curve:
    """Return a moving average in which each value counts by its age, as on the page of one job.

    Args:
        weight: of the average so far, from 0 (no smoothing) to below 1.
    """
    if not weight:
        return curve
    total = known = 0.0
    found = []
    for place, value in curve:
        total = weight * total + (1 - weight) * value
        known = weight * known + (1 - weight)
        found.append((place, total / known))
    return found


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """Return a curve of fewer points; the lowest and the highest of neighbours stay."""
    if len(curve) <= most:
        return curve
    first, last = curve[0][0], curve[-1][0]
    bins = most // 2
    width = (last - first) / bins or 1.0
    found: list[Point] = []
    for _, near in groupby(curve, lambda point: min(bins - 1, int((point[0] - first) / width))):
        points = [*near]
        low, high = min(points, key=_value), max(points, key=_value)
        found += sorted({low, high})
    return found


def band(curves: Iterable[Curve]) -> list[BandPoint]:
    """Return the band of the curves of several seeds, in order of place.

    Values between two points are interpolated linearly. At a place the band is over the seeds
    that have values on both sides, of which there must be two.
    """
    known = [each for each in curves if each]
    if len(known) < 2:
        return []
    first, last = (sorted(each[end][0] for each in known) for end in (0, -1))
    # At least two seeds have values from the second beginning to the last end but one.
    begin, end = first[1], last[-2]
    if begin >= end:
        return []
    between = (begin + (end - begin) * number / (PLACES - 1) for number in range(PLACES - 1))
    places = [*between, end]
    columns = [_interpolated(each, places) for each in known]
    found = []
    for place, *values in zip(places, *columns, strict=True):
        scores = [each for each in values if each is not None]
        if len(scores) > 1:
            low, high = bootstrap_interval(scores, resamples=RESAMPLES)
            found.append(BandPoint(place, interquartile_mean(scores), low, high))
    return found


def _interpolated(curve: Curve, places: Sequence[float]) -> list[float | None]:
    """Return the values of a curve at places; None before its first and after its last one."""
    known = [place for place, _ in curve]
    found: list[float | None] = []
    for place in places:
        if not known[0] <= place <= known[-1]:
            found.append(None)
            continue
        after = bisect_left(known, place)
        (right, high) = curve[after]
        if right == place:
            found.append(high)
            continue
        left, low = curve[after - 1]
        found.append(low + (place - left) / (right - left) * (high - low))
    return found


def _value(point: Point) -> float:
    return point[1]
