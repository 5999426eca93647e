"""The order of an epoch's shards, as di-server computes it; used outside a job."""

from __future__ import annotations

from hashlib import blake2b

_ROUNDS = 6


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
