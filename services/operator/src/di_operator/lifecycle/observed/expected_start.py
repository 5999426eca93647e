"""`status.expectedStart`: when a job that waits for nodes is to have them, by the allocator.

`promised` in it is what was told first since it has been waiting: what comes then may be later and
later, and who waits is to know that it takes longer than was said.
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
    """The value of the field of a job that waits; None: nothing was ever foretold.

    Args:
        written: the field as it is.
        found: what the allocator says now; None: it does not know.
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
