"""Retry delays after refusals: the delay doubles with each refusal."""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from zlib import crc32

FIRST_DELAY: Final = timedelta(seconds=15)
LONGEST_DELAY: Final = timedelta(seconds=600)


def spread(delay: timedelta, uid: str) -> timedelta:
    """Return the delay of one job: at least two thirds of it.

    Two jobs that share a quota which is enough for one must not retry at the same time forever.
    """
    return delay * (1 - crc32(uid.encode()) / 2**32 / 3)
