"""Which indexes the replicas of a task have, when some are left out.

A function of what is stored and nothing else: the replicas have the lowest indexes that are not
vacant. So whoever changes their number, by whatever way, takes the highest away or adds above them;
to fill a vacant index is to take it off the list, in the same write as the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice


def indexes(replicas: int, vacant: Iterable[int]) -> Iterator[int]:
    """The indexes of so many replicas, in order."""
    left_out = frozenset(vacant)
    return islice((index for index in count() if index not in left_out), replicas)


def left_vacant(replicas: int, vacant: Iterable[int]) -> tuple[int, ...]:
    """Those of the vacant indexes that are below the last of so many replicas, in order; what is
    above it is free anyway."""
    found = frozenset(vacant)
    last = max(indexes(replicas, found), default=-1)
    return tuple(sorted(index for index in found if index < last))


def filled(replicas: int, vacant: Iterable[int], added: int) -> tuple[int, ...]:
    """What is vacant still when so many are added to the replicas: the lowest are filled first."""
    return left_vacant(replicas, vacant)[added:]
