"""Long-running parts of the operator, started again whatever goes wrong in them.

One job, one report or one policy that a part cannot bear must cost that part a pause and the
others nothing. Only a lost lease ends the process: restarted by its kubelet, the operator would
meet the same object again, and the kubelet's back-off would outlast the object.
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

# Seconds before a part that failed is started again, and for how long one must have worked for
# its next failure to be its first.
PAUSE_MINIMUM = 1.0
PAUSE_MAXIMUM = 60.0


class Observer(Protocol):
    """What the supervisor tells the metrics."""

    def duty_failed(self, duty: str) -> None:
        """Count one failure of a part, by its name."""
        ...


class Supervisor:
    """Keeps parts at work until the process is to end or the lease is lost.

    Both are states, and read after whatever a part raised. A part that answers its cancellation
    with an error, as a task group does that has errors of its own, is not started again.
    """

    def __init__(self, *, clock: Clock, rng: Random, observer: Observer, loss: Loss) -> None:
        self._loss = loss
        self._stopping = False
        self._clock = clock
        self._rng = rng
        self._observer = observer

    def stop(self) -> None:
        """Start no part again from now on."""
        self._stopping = True

    async def keep(self, name: str, duty: Duty) -> None:
        """Run `duty` until it returns; after an error again, with growing pauses."""
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
