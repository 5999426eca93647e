"""Compact copies of byte strings that are kept in memory."""

from __future__ import annotations


def compact(written: bytes) -> bytes:
    """Return a copy of the bytes that takes no more memory than it needs.

    The result of `orjson.dumps` occupies its write buffer, which is 4 KiB at least. Code that keeps
    many results has to keep copies.
    """
    return bytes(memoryview(written))
