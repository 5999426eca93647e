"""Queries of URLs."""

from __future__ import annotations

from collections.abc import Iterable

from di_server.problems import Malformed

_DIGITS = 18


def read_query(query: Iterable[tuple[str, str]], keys: Iterable[str]) -> dict[str, str]:
    """The values of those keys that are there; unknown ones are ignored.

    Raises:
        Malformed: one is there twice.
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
    """The value of a key.

    Raises:
        Malformed: it is no whole number of 0 or more.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise Malformed(f"{key}: must be a whole number, 0 or more")
    return int(text)
