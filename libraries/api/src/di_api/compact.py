"""Texts that are kept."""

from __future__ import annotations


def compact(written: bytes) -> bytes:
    """The same bytes, in no more room than they need.

    What `orjson.dumps` returns keeps the room that it was written in, which is 4 KiB at least. So
    whoever keeps many of them keeps copies.
    """
    return bytes(memoryview(written))
