"""Connected sets of nodes: jobs without a common usable node do not compete."""

from __future__ import annotations

from collections.abc import Iterable

Rows = frozenset[int]
"""Nodes by their row in the free capacity."""


def joined(sets: Iterable[Rows]) -> dict[Rows, Rows]:
    """Return, for each set of nodes, the union of all sets connected with it by overlaps."""
    given = list(dict.fromkeys(sets))
    whole: list[Rows] = []
    for rows in given:
        apart = [each for each in whole if each.isdisjoint(rows)]
        overlapping = [each for each in whole if not each.isdisjoint(rows)]
        whole = [*apart, rows.union(*overlapping)]
    return {rows: each for rows in given for each in whole if rows <= each}
