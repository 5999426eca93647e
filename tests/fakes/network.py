"""A network between a client and the real API server that can be cut, frozen and closed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from di_kube.config import KubeConfig


class Network:
    """Forwards TCP bytes from a loopback port to the server of a KubeConfig.

    Attributes:
        config: the same server, reached through this network; TLS stays end to end.
        connections: connections accepted so far.
    """

    def __init__(self, config: KubeConfig) -> None:
        self.config = config
        self.connections = 0
        self._beyond = urlsplit(config.server)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = True
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.config = replace(
            self.config,
            server=f"{self._beyond.scheme}://127.0.0.1:{port}",
            tls_server_name=self._beyond.hostname,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break every connection there is now; new ones are let through."""
        for writer in self._writers:
            writer.transport.abort()

    def close(self) -> None:
        """Break every connection and let none through."""
        self._open = False
        self.cut()

    def freeze(self) -> None:
        """Let connections stand, but no byte pass: what a lost peer looks like."""
        self._flowing.clear()

    def restore(self) -> None:
        """Undo `close`, and `freeze` for connections made from now on."""
        self._open = True
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if not self._open:
            writer.transport.abort()
            return
        host, port = self._beyond.hostname, self._beyond.port
        try:
            beyond_reader, beyond_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, beyond_writer}
        for source, sink in ((reader, beyond_writer), (beyond_reader, writer)):
            task = asyncio.create_task(self._forward(source, sink, self._flowing))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, flowing: asyncio.Event
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1 << 16):
                await flowing.wait()
                sink.write(data)
                await sink.drain()
        self._writers.discard(sink)
        sink.transport.abort()
