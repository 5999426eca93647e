"""The order in which the shards of an epoch are given to workers.

It is a permutation by a seed, computed without a list: a Feistel network on the smallest even
number of bits that can number all places. It is applied again while its result is beyond the last
place (Black and Rogaway, Ciphers with Arbitrary Finite Domains).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

_ROUNDS: Final = 6


def shard_at(place: int, *, count: int, seed: int, epoch: int) -> int:
    """Return the shard at a place of an epoch's order; each of the `count` shards has one place."""
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    key = f"{seed}/{epoch}".encode()
    found = _permuted(place, half, key)
    while found >= count:
        found = _permuted(found, half, key)
    return found


def _permuted(number: int, half: int, key: bytes) -> int:
    mask = (1 << half) - 1
    left, right = number >> half, number & mask
    for turn in range(_ROUNDS):
        mixed = blake2b(f"{turn}/{right}".encode(), key=key, digest_size=8).digest()
        left, right = right, left ^ (int.from_bytes(mixed, "big") & mask)
    return left << half | right
