"""Statistics of the scores of a few runs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from math import floor
from operator import itemgetter
from random import Random
from statistics import fmean
from typing import Final

LEVEL: Final = 0.95
"""Confidence level of the interval."""
_RESAMPLES: Final = 10_000
_SEED: Final = 0
"""The same scores have the same interval at each call."""
_KEPT: Final = 64
"""Number of counts of scores whose resamples are kept."""
_Chosen = Callable[[Sequence[float]], tuple[float, ...]]


def interquartile_mean(scores: Sequence[float]) -> float:
    """Return the mean of the middle half of some scores.

    A quarter of them, rounded down, is left out at each end. So fewer than four scores have their
    mean. Defined as in Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical
    Precipice (NeurIPS 2021, arXiv:2108.13264), and in their package rliable.
    """
    return fmean(sorted(scores)[_middle(len(scores))])


def bootstrap_interval(
    scores: Sequence[float], *, resamples: int = _RESAMPLES
) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the interquartile mean.

    The scores are resampled with replacement, as many as there are, 10,000 times unless
    `resamples` is another number. For one program this is the stratified bootstrap over runs of
    Agarwal et al. 2021 (see above).
    """
    ordered, size = sorted(scores), len(scores)
    if size < 2:
        return ordered[0], ordered[0]
    middle = len(range(size)[_middle(size)])
    means = sorted(
        (sum(chosen(ordered)) / middle, times) for chosen, times in _resampled(size, resamples)
    )
    found = [*chain.from_iterable(repeat(mean, times) for mean, times in means)]
    return percentile(found, (1 - LEVEL) / 2), percentile(found, (1 + LEVEL) / 2)


@lru_cache(maxsize=_KEPT)
def _resampled(size: int, resamples: int) -> Sequence[tuple[_Chosen, int]]:
    """Return the middle halves of resamples of ordered scores, and how often each was drawn.

    They are places among the scores, so they are drawn once for all scores of that number.
    """
    random = Random(_SEED)  # resampling, not cryptography
    drawn = Counter(
        tuple(sorted(random.choices(range(size), k=size))[_middle(size)]) for _ in range(resamples)
    )
    return [(itemgetter(*places), times) for places, times in drawn.items()]


def _middle(size: int) -> slice:
    """Return the middle half of so many ordered scores."""
    left_out = size // 4
    return slice(left_out, size - left_out)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of ordered values lies, interpolated linearly."""
    place = share * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
