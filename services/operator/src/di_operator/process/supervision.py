"""Long-running parts of the operator, restarted after any error.

One job, report or policy that a part cannot process must cost that part a delay and the others
nothing. Only a lost lease ends the process: after a restart by the kubelet the operator would meet
the same object again, and the kubelet's backoff would last longer than the object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol, TypeAlias

import structlog

from di_kube.backoff import Backoff
from di_operator.process.clock import Clock
from di_operator.process.lease_state import Loss

log = structlog.get_logger(__name__)

Duty: TypeAlias = Callable[[], Awaitable[None]]
"""A part that works until it is cancelled, or returns when nothing is left to do."""

# Seconds before a failed part is restarted, and seconds of work after which the next failure counts
# as the first.
PAUSE_MINIMUM = 1.0
PAUSE_MAXIMUM = 60.0


class Observer(Protocol):
    """The metrics that the supervisor updates."""

    def duty_failed(self, duty: str) -> None:
        """Count one failure of a part, by its name."""
        ...


class Supervisor:
    """Keeps parts running until the process shuts down or the lease is lost.

    Both are states that are read after any error of a part. A part that responds to its
    cancellation with an error, as a task group with errors of its own does, is not restarted.
    """

    def __init__(self, *, clock: Clock, rng: Random, observer: Observer, loss: Loss) -> None:
        self._loss = loss
        self._stopping = False
        self._clock = clock
        self._rng = rng
        self._observer = observer

    def stop(self) -> None:
        """Restart no part from now on."""
        self._stopping = True

    async def keep(self, name: str, duty: Duty) -> None:
        """Run `duty` until it returns; restart it after errors with growing delays."""
        backoff = Backoff(minimum=PAUSE_MINIMUM, maximum=PAUSE_MAXIMUM, rng=self._rng)
        while True:
            began = self._clock.monotonic()
            try:
                await duty()
            except Exception as error:
                if self._is_over():
                    log.info("duty ended", duty=name, error=repr(error))
                    return
                if self._clock.monotonic() - began >= PAUSE_MAXIMUM:
                    backoff.reset()
                pause = backoff.delay()
                self._observer.duty_failed(name)
                log.exception("duty failed", duty=name, retry_in=round(pause, 3))
            else:
                return
            await self._clock.sleep(pause)
            if self._is_over():
                return

    def _is_over(self) -> bool:
        return self._stopping or self._loss.reason is not None
