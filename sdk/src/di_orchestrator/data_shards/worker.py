"""The shards of one worker: what it has, what it has done, and the thread that asks for more."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from di_orchestrator.data_shards.requests import DEFAULT_AHEAD, Answer, Piece
from di_orchestrator.errors import Unreachable
from di_orchestrator.server.exchange import Clock
from di_orchestrator.warnings_once import Warnings

AT_ONCE = 128
"""Maximum number of shards in a request: a worker that has half of them left asks for more, and
may hold 256.
"""
SLOW_PART = 0.25
"""Part of the lease from which on a shard takes long: none is then asked for ahead."""


class Source(Protocol):
    """The provider of shards: di-server, or this process outside a job."""

    def take(self, said: Mapping[str, Any]) -> Answer:
        """Report what is done, and return the next shards."""
        ...

    def position(self) -> dict[str, Any]:
        """Return the position for a checkpoint."""
        ...

    def restore(self, position: Mapping[str, Any]) -> None:
        """Go on from a position."""
        ...


class Worker:
    """Gets shards ahead from a thread, so that a program seldom waits for them; thread-safe."""

    def __init__(
        self, source: Source, *, lease_seconds: float, clock: Clock = time.monotonic
    ) -> None:
        self._source = source
        self._lease = lease_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._asking = threading.Lock()
        self._ahead: deque[Piece] = deque()
        self._held: dict[int, Piece] = {}
        self._finished: set[int] = set()
        self._generation: int | None = None
        self._answer: Answer | None = None
        self._error: BaseException | None = None
        self._waiting = 0
        self._is_closing = False
        self._last: float | None = None
        self._seconds: float | None = None
        self._thread: threading.Thread | None = None
        self._warnings = Warnings()

    @property
    def progress(self) -> tuple[int, int]:
        """Return the numbers of shards that are done and that exist, as of the last answer."""
        found = self._answer
        return (0, 0) if found is None else (found.done, found.total)

    def next(self) -> Piece | None:
        """Return the next shard, as soon as there is one; None once all shards are done."""
        with self._changed:
            self._measure()
            if self._thread is None and not self._is_closing:
                self._thread = threading.Thread(target=self._run, daemon=True, name="di-shards")
                self._thread.start()
            self._waiting += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._ahead or self._is_over())
            finally:
                self._waiting -= 1
            if not self._ahead:
                if self._error is not None:
                    raise self._error
                return None
            piece = self._ahead.popleft()
            self._held[piece.index] = piece
            # The time that it has waited for this shard is none of the program's.
            self._last = self._clock()
            self._changed.notify_all()
            return piece

    def done(self, index: int) -> None:
        """Record that a shard is done; it is reported with the next request."""
        with self._changed:
            if self._held.pop(index, None) is not None:
                self._finished.add(index)

    def position(self) -> dict[str, Any]:
        """Return the position for a checkpoint, with all that this worker has done."""
        self._ask(0)
        return self._source.position()

    def restore(self, position: Mapping[str, Any]) -> None:
        """Go on from a position: what this worker holds or has done does not count."""
        with self._asking:
            self._source.restore(position)
            with self._changed:
                self._forget()
                self._answer = None

    def close(self) -> None:
        """Report what is done, and give back the rest. Never raises: the rest of a worker that
        cannot be reached is given to others when its lease is over.
        """
        with self._changed:
            if self._is_closing:
                return
            self._is_closing = True
            self._changed.notify_all()
        if self._generation is None or (self._answer is not None and self._answer.is_finished):
            return
        try:
            self._ask(0, leaves=True)
        except Exception as error:
            self._warnings.say(f"shards are given back when their lease is over: {error}")

    def _is_over(self) -> bool:
        is_finished = self._answer is not None and self._answer.is_finished
        return is_finished or self._is_closing or self._error is not None

    def _measure(self) -> None:
        """Follow how long a shard takes; the last few count most."""
        if self._last is not None:
            took = self._clock() - self._last
            before = took if self._seconds is None else self._seconds
            self._seconds = before + (took - before) / 4

    def _wanted(self) -> int:
        """Return how many shards to ask for; 0: none."""
        if self._is_over():
            return 0
        told = DEFAULT_AHEAD if self._answer is None else self._answer.ahead
        # With more, the lease could be over before the next request renews it.
        work = min(told, SLOW_PART * self._lease)
        seconds = work if self._seconds is None else self._seconds
        if seconds > SLOW_PART * self._lease:
            return int(bool(self._waiting and not self._ahead))
        most = max(1, min(AT_ONCE, int(work / max(seconds, 0.001))))
        return most if len(self._ahead) <= most // 2 else 0

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over() or self._wanted())
                if self._is_over():
                    self._changed.notify_all()
                    return
                number = self._wanted()
            try:
                found = self._ask(number)
            except Unreachable as error:
                # As long as nothing is lost: di-server may be back.
                self._warnings.say(str(error))
                continue
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            if not found.pieces and not found.is_finished:
                # Others have the last shards, and may lose them.
                with self._changed:
                    self._changed.wait_for(self._is_over, found.retry_after)

    def _ask(self, number: int, *, leaves: bool = False) -> Answer:
        """Send one request at a time: it names all that this worker holds."""
        with self._asking:
            with self._changed:
                done = set(self._finished)
                held = {*self._held, *(piece.index for piece in self._ahead)}
                generation = self._generation
                # Shards that came after the last request would be kept until their lease is over.
                number = 0 if self._is_closing else number
            found = self._source.take(
                {
                    "generation": generation,
                    "done": sorted(done),
                    "holds": sorted(held),
                    "number": number,
                    "leaves": leaves,
                }
            )
            with self._changed:
                if generation not in (None, found.generation):
                    self._forget()
                self._generation, self._answer = found.generation, found
                self._finished -= done
                kept = [each for each in self._ahead if each.index not in found.lost]
                self._ahead = deque([*kept, *found.pieces])
                self._changed.notify_all()
            return found

    def _forget(self) -> None:
        self._ahead.clear()
        self._held.clear()
        self._finished.clear()
