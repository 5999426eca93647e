"""The di-server of a run ends with it."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from di_kube.config import KubeConfig
from di_local import server
from di_local.addresses import Network
from di_local.report_interval import REPORT_SECONDS
from di_server.config import Config
from di_service.serving.worker import Serving
from tests.waiting import wait_until


class _Front:
    """Serves no request."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    async def serve(self, _listeners: Any, *, grace: float) -> None:
        assert grace == 0.0
        await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()


def test_a_waiting_request_does_not_keep_di_server_running(monkeypatch: pytest.MonkeyPatch) -> None:
    draining = threading.Event()
    # What a request that waits holds: a thread that Python joins before it ends.
    waiting = threading.Thread(target=draining.wait)

    def load(*, settings: Config, **_: Any) -> Serving:
        assert settings.report_seconds == REPORT_SECONDS
        waiting.start()
        front: Any = _Front()
        return Serving(grace=5.0, front=front, on_drain=draining.set)

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            network = Network("127.0.0", listener)
            async with server.di_server(network, KubeConfig(server="http://127.0.0.1:9")):
                assert waiting.is_alive()

    monkeypatch.setattr(server, "load", load)
    try:
        asyncio.run(run())
        wait_until(lambda: not waiting.is_alive())
    finally:
        draining.set()
