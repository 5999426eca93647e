"""Parsing of URL queries."""

from __future__ import annotations

from collections.abc import Iterable

from di_server.problems import Malformed

_DIGITS = 18


def read_query(query: Iterable[tuple[str, str]], keys: Iterable[str]) -> dict[str, str]:
    """Return the values of the present keys; unknown keys are ignored.

    Raises:
        Malformed: a key is repeated.
    """
    found: dict[str, str] = {}
    wanted = set(keys)
    for key, value in query:
        if key in found:
            raise Malformed(f"{key}: is there twice")
        if key in wanted:
            found[key] = value
    return found


def whole_number(key: str, text: str) -> int:
    """Return the value of a key.

    Raises:
        Malformed: it is not an integer of 0 or more.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise Malformed(f"{key}: must be a whole number, 0 or more")
    return int(text)
