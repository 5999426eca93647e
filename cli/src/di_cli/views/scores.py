"""Statistics of the scores of a few runs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from random import Random
from statistics import fmean
from typing import Final

LEVEL: Final = 0.95
"""Confidence level of the interval."""
_RESAMPLES: Final = 10_000
_SEED: Final = 0
"""The same scores have the same interval at each call."""


def interquartile_mean(scores: Sequence[float]) -> float:
    """Return the mean of the middle half of some scores.

    A quarter of them, rounded down, is left out at each end. So fewer than four scores have their
    mean. Defined as in Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical
    Precipice (NeurIPS 2021, arXiv:2108.13264), and in their package rliable.
    """
    left_out = len(scores) // 4
    return fmean(sorted(scores)[left_out : len(scores) - left_out])


def bootstrap_interval(scores: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the interquartile mean.

    The scores are resampled with replacement, as many as there are, 10,000 times. For one program
    this is the stratified bootstrap over runs of Agarwal et al. 2021 (see above).
    """
    random = Random(_SEED)  # resampling, not cryptography
    count = len(scores)
    found = sorted(interquartile_mean(random.choices(scores, k=count)) for _ in range(_RESAMPLES))
    return percentile(found, (1 - LEVEL) / 2), percentile(found, (1 + LEVEL) / 2)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of ordered values lies, interpolated linearly."""
    place = share * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
