"""`status.expectedStart`: the time at which a waiting job should get its nodes.

Its `promised` keeps the first forecast since the job began to wait. Later forecasts can be much
later, and the user should see how much longer the job waits than was first forecast.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from di_api.expected_completion import ExpectedCompletion
from di_operator.lifecycle.observed.expected_completion import has_moved
from di_operator.lifecycle.vocabulary.timestamps import parse_time

FIELD: Final = "expectedStart"
PROMISED: Final = "promised"


def start_field(
    written: object, found: ExpectedCompletion | None, now: datetime
) -> Mapping[str, Any] | None:
    """Return the value of the field for a waiting job; None if there was never a forecast.

    Args:
        written: present value of the field.
        found: present forecast of the allocator; None if it has none.
        now: the time, aware.
    """
    before: Mapping[str, Any] = written if isinstance(written, Mapping) else {}
    promised = before.get(PROMISED) if parse_time(before.get(PROMISED)) is not None else None
    if found is None:
        return {PROMISED: promised} if promised is not None else None
    if promised is not None and not has_moved(found, ExpectedCompletion.read(before), now):
        return before
    told = found.dump()
    return {**told, PROMISED: promised or told["latest"]}
