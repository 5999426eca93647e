"""For how long what was refused is not tried again: the delay doubles with each refusal."""

from __future__ import annotations

from datetime import timedelta
from typing import Final
from zlib import crc32

FIRST_DELAY: Final = timedelta(seconds=15)
LONGEST_DELAY: Final = timedelta(seconds=600)


def spread(delay: timedelta, uid: str) -> timedelta:
    """The delay of one job: two thirds of it at least. Two jobs that share a quota which is enough
    for one must not return together for ever."""
    return delay * (1 - crc32(uid.encode()) / 2**32 / 3)
