"""What the first learner's training loop shares with the threads that answer others."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Set
from typing import Any

from di_grpo.model.weights import Weights
from di_grpo.samples import Batch, Buffer
from di_grpo.shares import Share, Shares
from di_orchestrator import Asked, Reply
from di_orchestrator.arrays import pack, unpack

POLL_SECONDS = 1.0
"""How long a learner that asks for a share is kept waiting for one."""
GONE = 410
"""What is answered once training is over."""
PRESENT_SECONDS = 5.0
"""Who asked for weights or a share counts as present for so long."""


class Book:
    """Weights by version, samples, shares, evaluations."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._version = -1
        self._weights = b""
        self._buffer = Buffer()
        self._shares = Shares([], lease=0)
        self._evaluations: list[dict[str, Any]] = []
        self._heard: dict[str, float] = {}
        self._told: set[str] = set()
        self._brought: dict[str, int] = {}
        self._left: list[int] = []
        self._finished = False

    def answer(self, asked: Asked) -> Reply:
        """What the first learner says to one asked.

        Raises:
            LookupError: there is no such path, or something is missing.
            ValueError: something is not what it should be.
        """
        match asked.method, asked.path:
            case "GET", "/ready":
                return Reply()
            case "GET", "/weights":
                return self._tell_weights(asked.query["who"], int(asked.query["have"]))
            case "GET", "/share":
                return self._tell_share(asked.query["who"])
            case "POST", "/samples":
                self._take_samples(asked, Batch.of(unpack(asked.body)))
            case "POST", "/left":
                self._take_leave(asked.query["who"], int(asked.query["batches"]))
            case "POST", "/gradient":
                gradient = unpack(asked.body)
                self.give(int(gradient.pop("version")), int(gradient.pop("index")), gradient)
            case "POST", "/evaluations":
                with self._changed:
                    self._evaluations.append(json.loads(asked.body))
            case _:
                raise LookupError(asked.path)
        return Reply()

    def _tell_weights(self, who: str, have: int) -> Reply:
        with self._changed:
            self._heard[who] = self._clock()
            if self._finished:
                return self._tell_the_end(who)
            return Reply(body=b"" if have == self._version else self._weights)

    def _tell_share(self, who: str) -> Reply:
        with self._changed:
            self._heard[who] = self._clock()
            share: Share | None = None

            def found() -> bool:
                nonlocal share
                share = self._shares.take(self._clock())
                return self._finished or share is not None

            self._changed.wait_for(found, POLL_SECONDS)
            if self._finished:
                return self._tell_the_end(who)
            return Reply(body=b"" if share is None else pack(**share.arrays()))

    def _tell_the_end(self, who: str) -> Reply:
        self._told.add(who)
        return Reply(GONE)

    def _take_samples(self, asked: Asked, batch: Batch) -> None:
        who, number = asked.query["who"], int(asked.query["batch"])
        with self._changed:
            self._brought[who] = number
            self._buffer.add(batch, version=self._version)
            self._changed.notify_all()

    def _take_leave(self, who: str, batches: int) -> None:
        with self._changed:
            # An engine brings one batch after the other. Of one that brought nothing to this
            # process everything came to the one before.
            self._left.append(batches - self._brought.pop(who, batches))

    def publish(self, version: int, weights: Weights) -> None:
        """From now on these are the weights."""
        message = pack(version=version, **weights)
        with self._changed:
            self._version, self._weights = version, message

    def take(self, count: int, *, seconds: float) -> list[Batch]:
        """The newest batches that are not stale; none if there are too few for so long."""
        with self._changed:
            taken: list[Batch] = []

            def enough() -> bool:
                taken.extend(self._buffer.take(count, version=self._version))
                return bool(taken)

            self._changed.wait_for(enough, seconds)
            return taken

    def dropped(self) -> int:
        """How many batches were dropped as stale since the last time this was asked."""
        with self._changed:
            return self._buffer.dropped()

    def left(self) -> list[int]:
        """For each engine that has left since the last time this was asked, the batches that it
        began and did not bring."""
        with self._changed:
            left, self._left = self._left, []
            return left

    def open(self, shares: list[Share], *, lease: float) -> None:
        """Let the shares of a step be taken."""
        with self._changed:
            self._shares = Shares(shares, lease=lease)
            self._changed.notify_all()

    def take_share(self) -> Share | None:
        """A share that nobody else computes in time, once there is one; None: all are there."""
        with self._changed:
            while (late := self._shares.next_late) is not None:
                if share := self._shares.take(self._clock()):
                    return share
                self._changed.wait(max(0.0, late - self._clock()))
            return None

    def give(self, version: int, index: int, gradient: Weights) -> None:
        """Enter the gradient of a share."""
        with self._changed:
            self._shares.give(version, index, gradient)
            self._changed.notify_all()

    def mean_gradient(self) -> Weights:
        """That of the whole batch, once all shares are there."""
        with self._changed:
            return self._shares.mean()

    def new_evaluations(self) -> list[dict[str, Any]]:
        """Those since the last time this was asked."""
        with self._changed:
            fresh, self._evaluations = self._evaluations, []
            return fresh

    def finish(self) -> None:
        """From now on everybody who asks is told that training is over."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def everyone_told(self, *, awaited: Set[str]) -> bool:
        """Whether these, and all who are still present, have heard that training is over."""
        with self._changed:
            now = self._clock()
            present = {who for who, at in self._heard.items() if now - at <= PRESENT_SECONDS}
            return present | awaited <= self._told
