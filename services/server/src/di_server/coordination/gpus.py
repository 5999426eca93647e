"""Distribution of the GPUs of one learner over pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def usual(nodes: Iterable[int]) -> int:
    """Return the GPUs of the most frequent type of GPU node, 0 if there is none.

    Of equally frequent types the larger one, which needs fewer pods. `nodes` are the allocatable
    GPUs of each node; nodes without GPUs run no learner and do not count.
    """
    kinds = Counter(count for count in nodes if count > 0)
    return max(kinds, key=lambda count: (kinds[count], count), default=0)


def split(gpus: int, node: int) -> tuple[int, ...]:
    """Return the GPUs of each pod, full nodes first; `node` is the usual number per node, 0 if
    unknown.

    One pod gets all GPUs if they fit on a node, or if the number per node is unknown.
    """
    if not 0 < node < gpus:
        return (gpus,)
    full, rest = divmod(gpus, node)
    return (node,) * full + ((rest,) if rest else ())
