"""How an answer leaves: in as few packets as may be, and with an end that lets it be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from typing_extensions import override

from di_service.serving.bounds import LINGER_BYTES, LINGER_SECONDS

_HELD_BYTES: Final = 4096
"""Longer ones fill a packet anyway."""


class LingeringTransport(asyncio.Transport):
    """A transport whose `close` waits for the client to hang up, for a second at most.

    What is written first waits for what is written next, until this turn of the loop ends: the
    head of an answer goes in one packet with its body, and the client wakes up once.
    """

    def __init__(
        self, inner: asyncio.Transport, *, loop: asyncio.AbstractEventLoop, write_seconds: float
    ) -> None:
        super().__init__()
        self._inner = inner
        self._loop = loop
        self._write_seconds = write_seconds
        self._left = LINGER_BYTES
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._held = b""

    @override
    def close(self) -> None:
        if self._closing:
            return
        self._flush()
        self._closing = True
        if self._inner.can_write_eof() and not self._inner.is_closing():
            self._inner.write_eof()
        # Whoever stopped reading asked for no more, and is read now to see it hang up.
        self.resume_reading()
        self._timer = self._loop.call_later(LINGER_SECONDS, self.close_now)

    def close_now(self) -> None:
        """End it when what was written is gone, at the latest in `write_seconds`."""
        self._flush()
        self._closing = True
        self.ended()
        self._inner.close()
        self._timer = self._loop.call_later(self._write_seconds, self._inner.abort)

    def discard(self, data: bytes) -> None:
        """What comes in while it lingers."""
        self._left -= len(data)
        if self._left < 0:
            self.abort()

    def ended(self) -> None:
        """Forget the timer; to be called when the connection is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @override
    def abort(self) -> None:
        self._closing = True
        self._inner.abort()

    @override
    def is_closing(self) -> bool:
        return self._closing or self._inner.is_closing()

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_closing():
            return
        if self._held:
            self._held += data
            self._flush()
        elif len(data) < _HELD_BYTES:
            self._held = bytes(data)
            self._loop.call_soon(self._flush)
        else:
            self._inner.write(data)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held and not self.is_closing():
            self._inner.write(held)

    @override
    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    @override
    def pause_reading(self) -> None:
        self._inner.pause_reading()

    @override
    def resume_reading(self) -> None:
        # asyncio's TLS stumbles over its own state if that is asked of a connection that ends.
        if not self._inner.is_closing():
            self._inner.resume_reading()

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)
