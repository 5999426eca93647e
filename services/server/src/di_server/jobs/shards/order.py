"""The order in which the shards of an epoch are given to workers.

It is a permutation by a seed, computed without a list: a Feistel network on the smallest even
number of bits that can number all places. It is applied again while its result is beyond the last
place (Black and Rogaway, Ciphers with Arbitrary Finite Domains).
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

_ROUNDS: Final = 6


def shard_at(place: int, *, count: int, seed: int, epoch: int) -> int:
    """Return the shard at a place of an epoch's order; each of the `count` shards has one place."""
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    keyed = _keyed(seed, epoch)
    found = _permuted(place, half, keyed)
    while found >= count:
        found = _permuted(found, half, keyed)
    return found


@lru_cache(maxsize=64)
def _keyed(seed: int, epoch: int) -> blake2b:
    """Return the hash of an epoch before its data: a copy costs half of a new one."""
    return blake2b(key=f"{seed}/{epoch}".encode(), digest_size=8)


def _permuted(number: int, half: int, keyed: blake2b) -> int:
    mask = (1 << half) - 1
    left, right = number >> half, number & mask
    for turn in range(_ROUNDS):
        mixed = keyed.copy()
        mixed.update(b"%d/%d" % (turn, right))
        left, right = right, left ^ (int.from_bytes(mixed.digest(), "big") & mask)
    return left << half | right
