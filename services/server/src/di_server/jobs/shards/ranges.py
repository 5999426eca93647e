"""Text of a set of numbers as ranges, such as `0-3,7`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

_TEXT: Final = re.compile(r"[0-9]{1,15}(-[0-9]{1,15})?(,[0-9]{1,15}(-[0-9]{1,15})?)*")


def to_text(numbers: Iterable[int]) -> str:
    """Return the ranges of the numbers in ascending order; empty if there are none."""
    ordered = sorted(numbers)
    if not ordered:
        return ""
    breaks = [(before, after) for before, after in pairwise(ordered) if after > before + 1]
    starts = [ordered[0], *(after for _, after in breaks)]
    ends = [*(before for before, _ in breaks), ordered[-1]]
    pairs = zip(starts, ends, strict=True)
    return ",".join(str(start) if start == end else f"{start}-{end}" for start, end in pairs)


def from_text(text: object, *, below: int, most: int) -> frozenset[int]:
    """Return the numbers of the ranges.

    Raises:
        ValueError: the text has another form, a number is not below the bound, or there are more
            than `most`.
    """
    if text == "":
        return frozenset()
    if not isinstance(text, str) or not _TEXT.fullmatch(text):
        raise ValueError("must be ranges of numbers such as 0-3,7")
    found = set[int]()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        # Checked before the numbers are listed, which a large range would take too long for.
        if numbers.stop > below:
            raise ValueError(f"must have numbers below {below}")
        if len(found) + len(numbers) > most:
            raise ValueError(f"must have {most} numbers at most")
        found.update(numbers)
    return frozenset(found)
