"""Local indexes as text, such as `0-3,7`: the form of `status.completedIndexes`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

# No job has an index with more digits; a longer number would exhaust the reader's memory.
_RANGE: Final = re.compile("([0-9]{1,5})(?:-([0-9]{1,5}))?")


def read_ranges(text: str) -> Iterator[int]:
    """Yield the indexes in a text, each once, even if the text repeats them."""
    matches = filter(None, map(_RANGE.fullmatch, text.split(",")))
    after = 0
    for first, last in sorted((int(each[1]), int(each[2] or each[1])) for each in matches):
        yield from range(max(first, after), last + 1)
        after = max(after, last + 1)


def write_ranges(indexes: Iterable[int]) -> str:
    """Return the text for some indexes."""
    return ",".join(_ranges(indexes))


def _ranges(indexes: Iterable[int]) -> Iterator[str]:
    begun = last = None
    for index in sorted(indexes):
        if begun is None or last is None:
            begun = last = index
        elif index == last + 1:
            last = index
        else:
            yield _range(begun, last)
            begun = last = index
    if begun is not None and last is not None:
        yield _range(begun, last)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
