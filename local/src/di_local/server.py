"""di-server of one run, in this process: without it nobody scales and nobody reports."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from di_kube.config import KubeConfig
from di_local.addresses import Network
from di_server.config import load_config
from di_server.main import load

_END_SECONDS: Final = 15.0


@asynccontextmanager
async def di_server(network: Network, kube: KubeConfig) -> AsyncIterator[None]:
    """Serve on the network's listener, in a thread with an event loop of its own, as in a worker
    process; callers have to show a token."""
    config = load_config(
        [],
        {
            "DI_SERVER_BINDS": network.server_url.removeprefix("http://"),
            # Every user of this machine can have the address of a pod: addresses prove nothing.
            "DI_SERVER_AUTH": "required",
            "DI_SERVER_WATCH_NODES": "false",
        },
    )
    serving = load(settings=config, kube_config=kube)
    front = serving.front
    loop = asyncio.new_event_loop()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        # The job has ended when it stops: whoever still asks has nothing to be told.
        loop.run_until_complete(front.serve([network.listener], grace=0.0))
        loop.close()

    thread = threading.Thread(target=serve, name="di-server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # Or the threads of those who wait for news would keep this process.
        serving.on_drain()
        loop.call_soon_threadsafe(front.stop)
        await asyncio.to_thread(thread.join, _END_SECONDS)
