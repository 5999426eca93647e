"""Sending responses: in few packets, and with a close that lets the client read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from typing_extensions import override

from di_service.serving.bounds import LINGER_BYTES, LINGER_SECONDS

_HELD_BYTES: Final = 4096
"""Bytes up to which a write is delayed; longer ones fill a packet anyway."""


class LingeringTransport(asyncio.Transport):
    """A transport whose `close` waits for the client to disconnect, for at most a second.

    A write waits for the next one until this iteration of the loop ends: the head of a response is
    sent in one packet with its body, and the client wakes up once.
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
        # The protocol paused reading; it resumes to detect that the client disconnects.
        self.resume_reading()
        self._timer = self._loop.call_later(LINGER_SECONDS, self.close_now)

    def close_now(self) -> None:
        """Close when all data is sent, after `write_seconds` at the latest."""
        self._flush()
        self._closing = True
        self.ended()
        self._inner.close()
        self._timer = self._loop.call_later(self._write_seconds, self._inner.abort)

    def discard(self, data: bytes) -> None:
        """Discard data that arrives while the transport lingers."""
        self._left -= len(data)
        if self._left < 0:
            self.abort()

    def ended(self) -> None:
        """Cancel the timer; call when the connection is lost."""
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
        # asyncio's TLS fails if this is called on a connection that is closing.
        if not self._inner.is_closing():
            self._inner.resume_reading()

    @override
    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)
