"""What the check of a pod's node says at its end, in its termination message.

`{"seconds": 1.5}`, and of exchanges of data with other pods of the task, if there were any,
`"exchanges": [{"with": 1, "seconds": 0.1}, {"with": 2, "failed": "why"}]`, by their local indexes;
`"failed"` beside it says why there were no more. Whatever a program of the user's writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.names import NODE_CHECK

Object = Mapping[str, Any]

LONGEST_REPORT: Final = 1024
"""Characters of a report that are read."""
MOST_EXCHANGES: Final = 16
_LONGEST_WHY: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """An exchange of data with another pod."""

    partner: int
    """Its local index."""
    seconds: float | None
    """None: it failed."""
    why: str
    """If it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What one pod said."""

    seconds: float | None
    """None: it did not say."""
    exchanges: tuple[Exchange, ...] = ()
    failed: str | None = None
    """Why it took no part in exchanges, or not to their end."""

    @classmethod
    def read(cls, text: str) -> CheckReport:
        """Read a report of any shape."""
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        fields: Object = said if isinstance(said, dict) else {}
        failed = fields.get("failed")
        return cls(
            seconds=_seconds(fields),
            exchanges=tuple(_exchanges(fields.get("exchanges"))),
            failed=failed[:_LONGEST_WHY] if isinstance(failed, str) else None,
        )


def report_of(container: Object) -> str | None:
    """What the check of a pod said at its end, by the status of that container; None: not yet, or
    it is another container."""
    ended = (container.get("state") or {}).get("terminated")
    if ended is None or container.get("name") != NODE_CHECK:
        return None
    return str(ended.get("message") or "")[:LONGEST_REPORT]


def _exchanges(said: object) -> Iterator[Exchange]:
    for each in (said if isinstance(said, list) else [])[:MOST_EXCHANGES]:
        partner = each.get("with") if isinstance(each, dict) else None
        if isinstance(partner, int) and not isinstance(partner, bool):
            why = str(each.get("failed"))[:_LONGEST_WHY]
            yield Exchange(partner=partner, seconds=_seconds(each), why=why)


def _seconds(fields: Object) -> float | None:
    seconds = fields.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return float(seconds) if 0 < seconds < math.inf else None
