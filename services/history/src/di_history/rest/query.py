"""Parsing of URL queries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from di_api.phase import Phase
from di_history.changes.times import millis
from di_history.records import EntryKind, Millis
from di_history.store.reader import MOST_JOBS, Wanted
from di_service.problems import Malformed

_PAGE: Final = re.compile(r"(\d{1,16})-([0-9a-zA-Z-]{1,64})")
_PAGE_SIZE: Final = 100


def only(arguments: Mapping[str, str], *known: str) -> None:
    """Refuse a query with unknown keys: a misspelt one would give a wrong result.

    Raises:
        Malformed: with the key.
    """
    for key in arguments:
        if key not in known:
            raise Malformed(f"no such key: {key[:80]!r}; there are {', '.join(known) or 'none'}")


def wanted_jobs(arguments: Mapping[str, str]) -> Wanted:
    """Return the filter for the list of jobs.

    Raises:
        Malformed: a value is invalid.
    """
    only(arguments, "namespace", "name", "phase", "over", "since", "page", "limit")
    phase = arguments.get("phase")
    if phase is not None and phase not in [each.value for each in Phase]:
        raise Malformed(f"phase must be one of {', '.join(Phase)}")
    return Wanted(
        namespace=name_of(arguments, "namespace"),
        name=name_of(arguments, "name"),
        phase=phase,
        is_over=flag(arguments, "over"),
        since=time_of(arguments, "since"),
        before=_page(arguments.get("page")),
        limit=number_of(arguments, "limit", default=_PAGE_SIZE, most=MOST_JOBS),
    )


def page_after(created: Millis, uid: str) -> str:
    """Return the value of `page` for the jobs after that one."""
    return f"{created}-{uid}"


def kinds_of(arguments: Mapping[str, str]) -> list[EntryKind]:
    """Return the comma-separated kinds of timeline entries; empty: all.

    Raises:
        Malformed: there is no such kind.
    """
    text = arguments.get("kinds")
    try:
        return [EntryKind(each) for each in text.split(",")] if text else []
    except ValueError as error:
        raise Malformed(f"kinds must be some of {', '.join(EntryKind)}") from error


def flag(arguments: Mapping[str, str], key: str) -> bool | None:
    """Return the value of `true` or `false`; None if absent.

    Raises:
        Malformed: it is neither.
    """
    text = arguments.get(key)
    if text not in (None, "true", "false"):
        raise Malformed(f"{key} must be true or false")
    return None if text is None else text == "true"


def time_of(arguments: Mapping[str, str], key: str) -> Millis | None:
    """Return an RFC 3339 time in milliseconds; None if absent.

    Raises:
        Malformed: it is invalid.
    """
    text = arguments.get(key)
    if text is None:
        return None
    try:
        # A plus in a query is decoded as a space.
        found = millis(text.replace(" ", "+"))
    except (OverflowError, ValueError):
        found = None
    if found is None:
        raise Malformed(f"{key} must be a time as in 2026-01-31T12:00:00Z")
    return found


def number_of(arguments: Mapping[str, str], key: str, *, default: int, most: int) -> int:
    """Return a number from 1 to `most`; the default if absent.

    Raises:
        Malformed: it is invalid.
    """
    text = arguments.get(key)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= most:
        raise Malformed(f"{key} must be a number from 1 to {most}")
    return int(text)


def name_of(arguments: Mapping[str, str], key: str) -> str | None:
    """Return a valid object name; None if absent.

    Raises:
        Malformed: it is invalid.
    """
    text = arguments.get(key)
    return None if text is None else checked_name(text, key)


def checked_name(text: str, what: str) -> str:
    """Return `text`, if it is a valid object name.

    Raises:
        Malformed: it is invalid.
    """
    if not re.fullmatch(r"[a-zA-Z0-9]([-.a-zA-Z0-9]{0,251}[a-zA-Z0-9])?", text):
        raise Malformed(f"{what} must be a name of letters, digits, '-' and '.'")
    return text


def _page(text: str | None) -> tuple[Millis, str] | None:
    if text is None:
        return None
    found = _PAGE.fullmatch(text)
    if found is None:
        raise Malformed("page must be `next` of the answer before")
    return int(found[1]), found[2]
