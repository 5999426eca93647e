"""The operator's clocks: passed in by main, replaced by a virtual clock in tests."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

from di_kube.server_time import ServerTime


class Clock(Protocol):
    """Wall clock for times that users read, monotonic clock for every measured interval.

    The two are never mixed: an operator whose wall clock jumps by an hour must neither lose its
    lease nor end a job early.
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
    """The machine's clocks."""

    def now(self) -> datetime:
        """Return the machine's wall time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the seconds since the machine was started, including its sleep."""
        # CLOCK_MONOTONIC stops while the machine is suspended: a leader on a resumed virtual
        # machine would believe in a lease that another replica took long ago.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task for `seconds`."""
        await asyncio.sleep(seconds)


class ServerClock:
    """The API server's wall clock, combined with a local monotonic one; see `ServerTime`."""

    def __init__(self, local: Clock) -> None:
        self._local = local
        self._time = ServerTime(wall=local.now, monotonic=local.monotonic)

    def observe(self, date: str) -> None:
        """Record the Date of a response (RFC 9110); an invalid one is ignored."""
        self._time.observe(date)

    def now(self) -> datetime:
        """Return the API server's wall time, the local one before the first response."""
        return self._time.now()

    def monotonic(self) -> float:
        """Return the local monotonic time."""
        return self._local.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task for `seconds`."""
        await self._local.sleep(seconds)
