"""Time as the operator sees it: passed in by main, replaced by a virtual one in tests."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


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
        return datetime.now(UTC)

    def monotonic(self) -> float:
        # CLOCK_MONOTONIC stands still while the machine is suspended: a leader waking up on a
        # resumed virtual machine would believe in a lease that another replica took long ago.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
