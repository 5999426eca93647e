"""Whether this replica may still decide, as a state that every part can read.

A lost lease is not passed on by exceptions: one that leaves a task group arrives as an
ExceptionGroup, and a group with errors of its own swallows the cancellation from outside.
"""

from __future__ import annotations

import asyncio


class NotLeading(Exception):
    """The lease is lost: nothing may be written."""


class Loss:
    """The loss of the lease, or of the claim on the jobs; final for this process.

    Attributes:
        reason: why, None while nothing is lost. The first reason stays.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._happened = asyncio.Event()

    def declare(self, reason: str) -> NotLeading:
        """Record the loss; returns the exception that stops the caller's own write."""
        if self.reason is None:
            self.reason = reason
        self._happened.set()
        return NotLeading(reason)

    async def wait(self) -> None:
        """Return once something is lost."""
        await self._happened.wait()
