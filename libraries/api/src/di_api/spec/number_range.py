"""Whole numbers that a field gives as one number or as a range: `3`, `128-255`."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = "(0|[1-9][0-9]{0,9})"
RANGE: Final = f"{_NUMBER}-{_NUMBER}"
"""Regular expression of a range: its first and last number."""


def read_numbers(value: object) -> range | None:
    """The numbers that a number or a range stands for; None if it is neither of them, or if the
    range ends before it begins."""
    # True is an int to Python and not to JSON.
    if isinstance(value, int) and not isinstance(value, bool):
        return range(value, value + 1)
    if not isinstance(value, str) or not re.fullmatch(RANGE, value):
        return None
    first, last = map(int, value.split("-"))
    return range(first, last + 1) or None
