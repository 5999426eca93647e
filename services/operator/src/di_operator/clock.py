"""Time as the operator sees it: passed in by main, replaced by a virtual one in tests."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

# Seconds by which an answer may show less than the true time: it is told in whole seconds, and
# was under way for a while. More than that, and the API server's clock was set back.
_COARSE = 2.0


class Clock(Protocol):
    """Wall clock for what users read, monotonic clock for every measured interval.

    The two are never mixed: an operator whose wall clock jumps by an hour must neither lose its
    lease nor end a job early because of an interval measured on the wall.
    """

    def now(self) -> datetime:
        """Return the wall time, with time zone UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an arbitrary moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task for `seconds`."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the machine's wall time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since the machine was started, those of its sleep included."""
        # CLOCK_MONOTONIC stands still while the machine is suspended: a leader waking up on a
        # resumed virtual machine would believe in a lease that another replica took long ago.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task for `seconds`."""
        await asyncio.sleep(seconds)


class ServerClock:
    """The API server's wall clock, as its answers tell it, on top of a local monotonic one.

    Deadlines compare times in a job's status with the present. If each replica took its own wall
    clock, one that is an hour ahead would end jobs an hour early as soon as it leads; so would a
    clock that is corrected while the operator runs. Before the first answer it is the local one.
    """

    def __init__(self, local: Clock) -> None:
        self._local = local
        self._last = ""
        self._offset: float | None = None

    def observe(self, date: str) -> None:
        """Take in the Date of an answer (RFC 9110); what is none is ignored."""
        if date == self._last:
            return
        self._last = date
        try:
            shown = parsedate_to_datetime(date).timestamp() - self._local.monotonic()
        except (TypeError, ValueError):
            return
        if self._offset is None or not 0 <= self._offset - shown < _COARSE:
            self._offset = shown

    def now(self) -> datetime:
        """Return the API server's wall time, the local one before its first answer."""
        if self._offset is None:
            return self._local.now()
        return datetime.fromtimestamp(self._offset + self._local.monotonic(), UTC)

    def monotonic(self) -> float:
        """Return the local monotonic time."""
        return self._local.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task for `seconds`."""
        await self._local.sleep(seconds)
