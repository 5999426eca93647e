"""What a query may say."""

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
    """Refuse a query with other keys: a misspelt one would be a wrong answer.

    Raises:
        Malformed: naming it.
    """
    for key in arguments:
        if key not in known:
            raise Malformed(f"no such key: {key[:80]!r}; there are {', '.join(known) or 'none'}")


def wanted_jobs(arguments: Mapping[str, str]) -> Wanted:
    """Which jobs to list.

    Raises:
        Malformed: a value means nothing.
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
        limit=_number(arguments, "limit", default=_PAGE_SIZE, most=MOST_JOBS),
    )


def page_after(created: Millis, uid: str) -> str:
    """What `page` has to be for the jobs after that one."""
    return f"{created}-{uid}"


def kinds_of(arguments: Mapping[str, str]) -> list[EntryKind]:
    """Kinds of a timeline's entries, with commas; none: all.

    Raises:
        Malformed: there is no such kind.
    """
    text = arguments.get("kinds")
    try:
        return [EntryKind(each) for each in text.split(",")] if text else []
    except ValueError as error:
        raise Malformed(f"kinds must be some of {', '.join(EntryKind)}") from error


def flag(arguments: Mapping[str, str], key: str) -> bool | None:
    """`true` or `false`; None: it is absent.

    Raises:
        Malformed: it is neither.
    """
    text = arguments.get(key)
    if text not in (None, "true", "false"):
        raise Malformed(f"{key} must be true or false")
    return None if text is None else text == "true"


def time_of(arguments: Mapping[str, str], key: str) -> Millis | None:
    """A time, RFC 3339.

    Raises:
        Malformed: it is none.
    """
    text = arguments.get(key)
    if text is None:
        return None
    try:
        # A space is what a plus in a query becomes.
        found = millis(text.replace(" ", "+"))
    except (OverflowError, ValueError):
        found = None
    if found is None:
        raise Malformed(f"{key} must be a time as in 2026-01-31T12:00:00Z")
    return found


def name_of(arguments: Mapping[str, str], key: str) -> str | None:
    """A name that an object can have.

    Raises:
        Malformed: none can.
    """
    text = arguments.get(key)
    return None if text is None else checked_name(text, key)


def checked_name(text: str, what: str) -> str:
    """`text`, if an object can be called so.

    Raises:
        Malformed: none can.
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


def _number(arguments: Mapping[str, str], key: str, *, default: int, most: int) -> int:
    text = arguments.get(key)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= most:
        raise Malformed(f"{key} must be a number from 1 to {most}")
    return int(text)
