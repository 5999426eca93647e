"""Heartbeats of this pod, sent from a thread while the program's loop goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from di_orchestrator.errors import DIError
from di_orchestrator.server.exchange import Clock
from di_orchestrator.warnings_once import Warnings

USUAL_SECONDS = 300.0
"""Seconds within which a loop goes on, unless the program gives another limit."""
LONGER = 3
"""A limit is at least so many times the longest time between two calls so far."""
MOST_PODS = 128
"""Number of pods of a job, by rank, that send heartbeats: as many as di-server records."""
_LEAST_SECONDS, _MOST_SECONDS = 10, 86_400
_PER_LIMIT = 3
"""Number of heartbeats within the limit, so that a lost one is no silence."""


class Heartbeats:
    """Reports to di-server that the loop goes on; thread-safe, never waits for the network.

    The first one is sent at the second call of `beat`, because only then is the time between two
    known. Afterwards a third of the limit is between two, if `beat` was called in it.

    Args:
        send: sends a heartbeat with its limit in seconds; None: this process sends none.
        within: the limit; it grows with the longest time between two calls.
    """

    def __init__(
        self,
        send: Callable[[int], object] | None,
        *,
        within: float = USUAL_SECONDS,
        clock: Clock = time.monotonic,
    ) -> None:
        self._send = send
        self._within = within
        self._clock = clock
        self._changed = threading.Condition()
        self._longest = 0.0
        self._last: float | None = None
        self._sent: float | None = None
        """Time of the last call that a heartbeat was sent for."""
        self._next = 0.0
        """Time from which on the next heartbeat is sent."""
        self._busy = 0
        self._is_closing = False
        self._warnings = Warnings()
        self._thread: threading.Thread | None = None

    @property
    def is_closed(self) -> bool:
        """Return whether no more are sent."""
        return self._is_closing

    @property
    def limit(self) -> int:
        """Return the seconds within which the next call of `beat` is expected."""
        found = max(self._within, LONGER * self._longest, _LEAST_SECONDS)
        return int(min(found, _MOST_SECONDS))

    def beat(self) -> None:
        """Note that the loop goes on."""
        now, last = self._clock(), self._last
        self._last = now
        if last is None:
            return
        self._longest = max(self._longest, now - last)
        if now >= self._next and self._send is not None:
            self._wake()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Context for work between two calls whose length is unknown: the pod is not silent."""
        with self._changed:
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
            # What it took is no time between two rounds of the loop.
            self._last = self._clock()

    def close(self) -> None:
        """Send no more."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def due(self) -> int | None:
        """Return the limit to send now; None: nothing is to be sent."""
        now, last = self._clock(), self._last
        if last is None or now < self._next or (self._sent == last and not self._busy):
            return None
        self._sent, self._next = last, now + self.limit / _PER_LIMIT
        return self.limit

    def _wake(self) -> None:
        with self._changed:
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run, daemon=True, name="di-heartbeats")
                self._thread.start()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._is_closing:
                    return
                limit = self.due()
                if limit is None:
                    self._changed.wait(max(self._next - self._clock(), 1.0))
                    continue
            try:
                if self._send is not None:
                    self._send(limit)
            except DIError as error:
                self._warnings.say(str(error), kind=type(error).__name__)
            except Exception as error:  # a training is never ended by its heartbeats
                text = f"a heartbeat could not be sent: {error!r}"
                self._warnings.say(text, kind=type(error).__name__)
