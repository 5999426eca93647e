"""The lease of this replica, as a state that every part can read.

The loss of the lease is not passed on by exceptions. One that leaves a task group arrives as an
ExceptionGroup, and a group with errors of its own swallows the cancellation from outside.
"""

from __future__ import annotations

import asyncio


class NotLeading(Exception):
    """The lease is lost: nothing may be written any more."""


class Loss:
    """The loss of the lease, or of the claim on the jobs; final for this process.

    Attributes:
        reason: the first reason, None while nothing is lost.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._happened = asyncio.Event()

    def declare(self, reason: str) -> NotLeading:
        """Record the loss; return the exception that stops the caller's own write."""
        if self.reason is None:
            self.reason = reason
        self._happened.set()
        return NotLeading(reason)

    async def wait(self) -> None:
        """Wait for the loss."""
        await self._happened.wait()
