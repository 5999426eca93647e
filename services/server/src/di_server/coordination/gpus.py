"""How the GPUs of one learner are spread over pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def usual(nodes: Iterable[int]) -> int:
    """GPUs of the most frequent kind of GPU node, 0 if there is none.

    Of kinds equally frequent the larger one: fewer pods to bring together. `nodes` are the
    allocatable GPUs of each node; nodes without any run no learner and do not count.
    """
    kinds = Counter(count for count in nodes if count > 0)
    return max(kinds, key=lambda count: (kinds[count], count), default=0)


def split(gpus: int, node: int) -> tuple[int, ...]:
    """GPUs of each pod, full nodes first; `node` is the usual number of a node, 0 if unknown.

    One pod takes all when they fit on a node or when nobody knows what would.
    """
    if not 0 < node < gpus:
        return (gpus,)
    full, rest = divmod(gpus, node)
    return (node,) * full + ((rest,) if rest else ())
