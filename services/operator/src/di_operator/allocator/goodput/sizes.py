"""The sizes that are offered to a job."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

# Whole nodes are offered one by one up to this number, then in steps of a quarter.
_ONE_BY_ONE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`per_node` replicas fit on an empty node; `minimum` to `maximum` are allowed, in multiples of
    `unit`."""

    per_node: int
    minimum: int
    maximum: int
    unit: int = 1


@lru_cache(maxsize=4096)
def sizes(bounds: Bounds, *, also: int = 0) -> tuple[int, ...]:
    """Return the sizes offered to a job, rising, 0 first.

    Powers of two within a node, then whole nodes: such sizes leave no gaps on nodes, and one
    fewer or one more replica than that is hardly ever worth a restart. `also`: the present size,
    which stays on offer as long as it is within the bounds.
    """
    offered = {bounds.minimum, also}
    size = 1
    while size < bounds.per_node:
        offered.add(size)
        size *= 2
    nodes = 1
    while nodes * bounds.per_node <= bounds.maximum:
        offered.add(nodes * bounds.per_node)
        nodes += 1 if nodes < _ONE_BY_ONE else nodes // 4
    if bounds.maximum < bounds.per_node:
        offered.add(bounds.maximum)
    least = max(bounds.unit, bounds.minimum)
    whole = {size - size % bounds.unit for size in offered}
    return (0, *sorted(size for size in whole if least <= size <= bounds.maximum))


def nodes_of(size: int, per_node: int) -> int:
    """Return the least number of nodes that so many replicas need."""
    return ceil(size / per_node)
