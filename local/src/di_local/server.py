"""di-server of one run, in this process, for scaling and reports."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from di_kube.config import KubeConfig
from di_local.addresses import Network
from di_local.report_interval import REPORT_SECONDS
from di_server.config import load_config
from di_server.main import load

_END_SECONDS: Final = 15.0


@asynccontextmanager
async def di_server(network: Network, kube: KubeConfig) -> AsyncIterator[None]:
    """Serve on the network's listener, in a thread with its own event loop, as in a worker process;
    callers need a token.
    """
    config = load_config(
        [],
        {
            "DI_SERVER_BINDS": network.server_url.removeprefix("http://"),
            # Every user of this machine can use the address of a pod: addresses prove nothing.
            "DI_SERVER_AUTH": "required",
            "DI_SERVER_WATCH_NODES": "false",
            "DI_SERVER_REPORT_SECONDS": str(REPORT_SECONDS),
        },
    )
    serving = load(settings=config, kube_config=kube)
    front = serving.front
    loop = asyncio.new_event_loop()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        # The job has ended when the server stops: no client needs a response.
        loop.run_until_complete(front.serve([network.listener], grace=0.0))
        loop.close()

    thread = threading.Thread(target=serve, name="di-server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # Otherwise the threads of waiting requests would keep this process running.
        serving.on_drain()
        loop.call_soon_threadsafe(front.stop)
        await asyncio.to_thread(thread.join, _END_SECONDS)
