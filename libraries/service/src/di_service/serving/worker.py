"""gunicorn's worker process, which runs fronts."""

# gunicorn ships no types, so its classes are Any to the type checker; hence the waivers at the
# subclasses below.

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gunicorn.workers.base import Worker  # type: ignore[import-untyped]
from typing_extensions import override

from di_service.serving import probe_server
from di_service.serving.front import Front
from di_service.serving.probe_server import SlowPages

_NOTIFY_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The fronts of one process; gunicorn's application loads it in the worker."""

    grace: float
    """Seconds for running requests after the drain."""
    front: Front
    """Served on every address except the one for probes."""
    probes: SlowPages = field(default_factory=dict)
    """Served on the address for probes, in a thread with its own event loop: no other traffic
    delays them.
    """
    probe_port: int | None = None
    drain_seconds: float = 0.0
    """Seconds after SIGTERM in which new requests are still accepted."""
    on_drain: Callable[[], None] = field(default=lambda: None)
    """Called at SIGTERM."""
    on_end: Callable[[], None] = field(default=lambda: None)
    """Called in a thread when the last request has been answered; it has a few seconds."""


class FrontWorker(Worker):  # type: ignore[misc]  # an untyped base
    """Runs the fronts until SIGTERM, and sends heartbeats to gunicorn."""

    wsgi: Any

    @override
    def init_signals(self) -> None:
        for each in self.SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGABRT, self.handle_abort)

    @override
    def run(self) -> None:
        asyncio.run(self._run(self.wsgi))

    async def _run(self, serving: Serving) -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, ended.set)
        for each in (signal.SIGINT, signal.SIGQUIT):
            # A person at a terminal does not want to wait.
            loop.add_signal_handler(each, os._exit, 0)
        own = [each for each in self.sockets if each.getsockname()[1] != serving.probe_port]
        others = [each.sock for each in self.sockets if each not in own]
        if others:
            # It ends with the process, when the last request has been answered.
            threading.Thread(
                target=asyncio.run,
                args=(probe_server.serve(serving.probes, others),),
                name="probes",
                daemon=True,
            ).start()
        async with asyncio.TaskGroup() as tasks:
            heart = tasks.create_task(self._beat(ended))
            work = tasks.create_task(
                serving.front.serve([each.sock for each in own], grace=serving.grace)
            )
            await ended.wait()
            serving.on_drain()
            await asyncio.sleep(serving.drain_seconds)
            serving.front.stop()
            await work
            await asyncio.to_thread(serving.on_end)
            heart.cancel()

    async def _beat(self, ended: asyncio.Event) -> None:
        while True:
            self.notify()
            if os.getppid() != self.ppid:
                self.log.info("the master has gone, ending")
                ended.set()
            await asyncio.sleep(_NOTIFY_SECONDS)
