"""Points of the unit cube by index: random ones, and those of a scrambled Halton sequence.

A point depends only on the seed, its index and the names of its dimensions, so that everything that
creates trials gets the same ones. `random` is not used: its sequence has to be drawn in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Final

_PRIMES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
_BITS: Final = 53
"""Bits of a float's fraction."""
_RESOLUTION: Final = 1 << 32
"""Digits of a Halton point are computed until they tell so many points apart."""


def random_point(seed: int, index: int, names: Sequence[str]) -> tuple[float, ...]:
    """Return independent numbers from 0 to below 1, one for each name."""
    return tuple(uniform("random", seed, index, name) for name in names)


def halton_point(seed: int, index: int, names: Sequence[str]) -> tuple[float, ...]:
    """Return a point of the Halton sequence, one number from 0 to below 1 for each name.

    Each digit is permuted at random (Owen, "A randomized Halton algorithm in R", 2017,
    arXiv:1706.02808): otherwise dimensions of large bases rise and fall together.
    """
    return tuple(
        _radical_inverse(seed, index, name, base)
        for name, base in zip(names, _PRIMES[: len(names)], strict=True)
    )


def uniform(what: str, seed: int, index: int, name: str) -> float:
    """Return a number from 0 to below 1, for one purpose, trial and name."""
    digest = sha256(f"{what} {seed} {index} {name}".encode()).digest()
    return (int.from_bytes(digest[:8]) >> (64 - _BITS)) / (1 << _BITS)


def _radical_inverse(seed: int, index: int, name: str, base: int) -> float:
    result, weight = 0.0, 1.0
    for place in range(math.ceil(math.log(_RESOLUTION, base))):
        index, digit = divmod(index, base)
        weight /= base
        result += weight * _permutation(seed, name, base, place)[digit]
    return min(result, math.nextafter(1.0, 0.0))


@cache
def _permutation(seed: int, name: str, base: int, place: int) -> tuple[int, ...]:
    """Return the digits of a base in the order of their hashes."""
    key = f"{name} {base} {place}"
    return tuple(sorted(range(base), key=lambda digit: uniform("digit", seed, digit, key)))
