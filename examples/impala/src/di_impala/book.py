"""What the learner's training loop shares with the threads that answer collectors."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from di_impala.network import Weights
from di_impala.unrolls import STEPS, Queue, Unroll
from di_orchestrator import Asked, Reply
from di_orchestrator.arrays import pack, unpack

EPISODES = 50
"""The mean return is that of so many, the last ones."""
PRESENT_SECONDS = 5.0
"""A collector that was heard of counts as present for so long; an unroll takes a tenth of that."""


class Book:
    """Weights by version, unrolls, returns of episodes, and who is there."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._version = -1
        self._weights = b""
        self._queue = Queue()
        self._returns: deque[float] = deque(maxlen=EPISODES)
        self._heard: dict[str, float] = {}
        self.env_steps = 0

    def answer(self, request: Asked) -> Reply:
        """What the learner says to one request.

        Raises:
            LookupError: there is no such path, or something is missing.
            ValueError: something is not what it should be.
        """
        match request.method, request.path:
            case "GET", "/ready":
                return Reply()
            case "GET", "/weights":
                return self._tell_weights(request)
            case "POST", "/unrolls":
                self._keep(Unroll.of(unpack(request.body)))
                return self._tell_weights(request)
            case _:
                raise LookupError(request.path)

    def _tell_weights(self, request: Asked) -> Reply:
        """To one who has others; whoever asks is present."""
        who, have = request.query["who"], int(request.query["have"])
        with self._changed:
            self._heard[who] = self._clock()
            return Reply(body=b"" if have == self._version else self._weights)

    def _keep(self, unroll: Unroll) -> None:
        with self._changed:
            self._queue.add(unroll)
            self._returns.extend(float(each) for each in unroll.returns)
            self.env_steps += STEPS
            self._changed.notify_all()

    def publish(self, version: int, weights: Weights) -> None:
        """From now on these are the weights."""
        message = pack(version=version, **weights)
        with self._changed:
            self._version, self._weights = version, message

    def take(self, count: int, *, seconds: float) -> list[Unroll]:
        """The oldest unrolls; none if there are too few for so long."""
        with self._changed:
            taken: list[Unroll] = []

            def enough() -> bool:
                taken.extend(self._queue.take(count))
                return bool(taken)

            self._changed.wait_for(enough, seconds)
            return taken

    def dropped(self) -> int:
        """How many unrolls were dropped since the last time this was asked."""
        with self._changed:
            return self._queue.dropped()

    def mean_return(self) -> float:
        """Of the last episodes; 0 while there are too few."""
        with self._changed:
            enough = len(self._returns) == EPISODES
            return sum(self._returns) / EPISODES if enough else 0.0

    def collectors(self) -> int:
        """How many are present."""
        with self._changed:
            now = self._clock()
            return sum(now - at <= PRESENT_SECONDS for at in self._heard.values())
