"""Durations as users write them: seconds, or numbers with units as kubectl and Go have them."""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER: Final = r"\d+(?:\.\d+)?"
_PART: Final = rf"({_NUMBER})({'|'.join(_SECONDS)})"


def read_duration(text: str) -> float:
    """Seconds of `90`, `90s`, `1m30s`, `1.5h`.

    Raises:
        ValueError: for any other text, with the forms that are right.
    """
    text = text.strip()
    if re.fullmatch(_NUMBER, text):
        return float(text)
    if not re.fullmatch(rf"(?:{_PART})+", text):
        raise ValueError(f"{text!r} is no duration: give seconds, or units such as 90s, 1m30s, 2h")
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(_PART, text))
