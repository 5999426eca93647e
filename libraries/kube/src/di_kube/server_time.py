"""The API server's wall clock, as its answers tell it, on top of a local monotonic one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

# Seconds by which an answer may show less than the true time: it is told in whole seconds, and
# was under way for a while. More than that, and the API server's clock was set back.
_COARSE: Final = 2.0


class ServerTime:
    """What is compared with times in a job's status, whoever wrote them.

    If each process took its own wall clock, one that is an hour ahead would end jobs an hour early;
    so would a clock that is corrected while it runs. Threads may share one.

    Args:
        wall: the local wall clock, for as long as there has been no answer.
        monotonic: seconds that never go back.
    """

    def __init__(self, *, wall: Callable[[], datetime], monotonic: Callable[[], float]) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._last = ""
        self._offset: float | None = None

    def observe(self, date: str) -> None:
        """Take in the Date of an answer (RFC 9110); what is none is ignored."""
        if date == self._last:
            return
        self._last = date
        try:
            shown = parsedate_to_datetime(date).timestamp() - self._monotonic()
        except (TypeError, ValueError):
            return
        if self._offset is None or not 0 <= self._offset - shown < _COARSE:
            self._offset = shown

    def now(self) -> datetime:
        """The API server's wall time, with time zone UTC."""
        offset = self._offset
        if offset is None:
            return self._wall()
        return datetime.fromtimestamp(offset + self._monotonic(), UTC)
