"""Response forms of records: names in the API's style, times as RFC 3339."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from di_history.changes.times import as_text

Object = dict[str, Any]
_TIMES: Final = frozenset(
    {"at", "created", "completed", "deleted", "seen", "since", "until", "from", "after"}
)
_NAMES: Final = {
    "pod_uid": "podUid",
    "exit_code": "exitCode",
    "whole_key": "object",
    "whole_size": "wholeSize",
    "whole_cut": "wholeCut",
    "whole_note": "wholeNote",
}


def shown(row: Mapping[str, Any]) -> Object:
    """Return one row without absent values."""
    return {
        _NAMES.get(key, key): as_text(value) if _is_time(key, value) else value
        for key, value in row.items()
        if value is not None
    }


def all_shown(rows: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Return several rows."""
    return [shown(row) for row in rows]


def all_samples(rows: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Return samples; there can be thousands."""
    return [{"at": as_text(each["at"]), "values": each["values"]} for each in rows]


def _is_time(key: str, value: object) -> bool:
    # `after` is a number of replicas in a scaling, and nodes in an allocation.
    return key in _TIMES and isinstance(value, int) and value > 10**11
