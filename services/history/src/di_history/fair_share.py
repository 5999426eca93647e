"""Max-min fair shares of space in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def level_of(sizes: Iterable[int], most: int) -> int | None:
    """Return the max-min fair share: the limit at which all claimants together have `most` bytes.

    A claimant below the limit keeps what it has, and the rest is divided among the others. None:
    all of them together have no more than `most`.
    """
    found = sorted(sizes)
    left = most
    for place, size in enumerate(found):
        share = left // (len(found) - place)
        if size > share:
            return max(0, share)
        left -= size
    return None


def over_the_level(sizes: Mapping[str, int], most: int) -> dict[str, int]:
    """Return by how many bytes each claimant exceeds its max-min fair share of `most`."""
    level = level_of(sizes.values(), most)
    if level is None:
        return {}
    return {name: size - level for name, size in sizes.items() if size > level}
