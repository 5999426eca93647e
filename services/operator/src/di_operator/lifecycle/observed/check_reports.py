"""The result of a pod's node check, from the termination message of its container.

`{"seconds": 1.5}`. If the pod exchanged data with other pods of the task, `"exchanges"` lists them
by local index: `[{"with": 1, "seconds": 0.1}, {"with": 2, "failed": "why"}]`. `"failed"` on the
top level explains why there were no further exchanges. A user's program may write anything.
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
"""Maximum number of characters of a report that are read."""
MOST_EXCHANGES: Final = 16
_LONGEST_WHY: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """An exchange of data with another pod."""

    partner: int
    """Local index of the other pod."""
    seconds: float | None
    """Duration of the exchange; None if it failed."""
    why: str
    """The error, if it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The report of one pod."""

    seconds: float | None
    """Duration of the check; None if the report has none."""
    exchanges: tuple[Exchange, ...] = ()
    failed: str | None = None
    """Why the pod took no part in exchanges, or did not finish them."""

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
    """Return the termination message of a pod's check by the status of its container; None if the
    check has not ended or the container is another one.
    """
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
