"""The API server's wall clock, taken from its responses, combined with a local monotonic one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

# Seconds by which a response can show less than the true time, because of whole seconds and network
# delay. If it is more, the API server's clock was set back.
_COARSE: Final = 2.0


class ServerTime:
    """The clock for comparisons with times in a job's status, whichever process wrote them.

    With local wall clocks, a process whose clock is an hour ahead would end jobs an hour early; so
    would a clock that is corrected while it runs. Thread-safe.

    Args:
        wall: the local wall clock, used before the first response.
        monotonic: seconds that never go back.
    """

    def __init__(self, *, wall: Callable[[], datetime], monotonic: Callable[[], float]) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._last = ""
        self._offset: float | None = None

    def observe(self, date: str) -> None:
        """Record the Date of a response (RFC 9110); an invalid one is ignored."""
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
        """Return the API server's wall time, with time zone UTC."""
        offset = self._offset
        if offset is None:
            return self._wall()
        return datetime.fromtimestamp(offset + self._monotonic(), UTC)
