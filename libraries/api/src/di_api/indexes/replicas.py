"""The indexes of a task's replicas if some indexes are vacant.

They depend only on what is stored: the replicas have the lowest indexes that are not vacant. So any
change of their number removes the highest index or adds one above. To fill a vacant index, it is
removed from the list in the same write as the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice


def indexes(replicas: int, vacant: Iterable[int]) -> Iterator[int]:
    """Yield the indexes of `replicas` replicas, in order."""
    left_out = frozenset(vacant)
    return islice((index for index in count() if index not in left_out), replicas)


def left_vacant(replicas: int, vacant: Iterable[int]) -> tuple[int, ...]:
    """Return the vacant indexes below the last of `replicas` replicas, in order; those above are
    free anyway.
    """
    found = frozenset(vacant)
    last = max(indexes(replicas, found), default=-1)
    return tuple(sorted(index for index in found if index < last))


def filled(replicas: int, vacant: Iterable[int], added: int) -> tuple[int, ...]:
    """Return the indexes that stay vacant when `added` replicas are added: the lowest are filled
    first.
    """
    return left_vacant(replicas, vacant)[added:]
