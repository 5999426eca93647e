"""Asynchronous client for programs with an asyncio loop.

`aio.Client` has the methods of `Client`; its iterators are asynchronous. Requests run in threads of
the loop's default executor; after the caller is cancelled they end at their deadline.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

from di_orchestrator.job import Job, World
from di_orchestrator.server.api import Api, Member, Members, Peer, Peers
from di_orchestrator.server.client import Send, scaling
from di_orchestrator.server.connect import connection
from di_orchestrator.server.exchange import Answer, Exchange, Pause, Silence

T = TypeVar("T")


async def run(exchange: Exchange[T], send: Send) -> T:
    """Run an exchange to its result; raises its errors."""
    said: Answer | Silence | None = None
    try:
        while True:
            step = exchange.send(said)
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                said = None
            else:
                said = await asyncio.to_thread(send, step)
    except StopIteration as done:
        result: T = done.value
        return result


class Client:
    """Asynchronous form of `di_orchestrator.server.client.Client`."""

    def __init__(self, api: Api, send: Send) -> None:
        self._api = api
        self._send = send

    async def scale(
        self, task: str | None = None, change: int | None = None, *, to: int | None = None
    ) -> int:
        """See `Client.scale`."""
        return await run(scaling(self._api, task, change, to), self._send)

    async def remove(self, *names: str) -> int:
        """See `Client.remove`."""
        return await run(self._api.remove(names), self._send)

    async def replicas(self) -> dict[str, int]:
        """See `Client.replicas`."""
        return await run(self._api.replicas(), self._send)

    async def peers(self, task: str) -> tuple[Peer, ...]:
        """See `Client.peers`."""
        return await run(self._api.peers(task), self._send)

    async def watch_peers(self, task: str) -> AsyncIterator[tuple[Peer, ...]]:
        """See `Client.watch_peers`."""
        known: Peers | None = None
        while True:
            known = await run(self._api.next_peers(task, known), self._send)
            yield known.peers

    async def watch_worlds(self, task: str) -> AsyncIterator[World]:
        """See `Client.watch_worlds`."""
        known: int | None = None
        while True:
            world = await run(self._api.next_world(task, known), self._send)
            known = world.generation
            yield world

    async def members(self, task: str | None = None) -> tuple[Member, ...]:
        """See `Client.members`."""
        return (await run(self._api.members(task), self._send)).members

    async def watch_members(self, task: str | None = None) -> AsyncIterator[tuple[Member, ...]]:
        """See `Client.watch_members`."""
        known: Members | None = None
        while True:
            known = await run(self._api.next_members(task, known), self._send)
            yield known.members


def client(environment: Mapping[str, str] = os.environ) -> Client | None:
    """Return the client of this pod's job; None outside a job, with one line on stderr.

    Raises:
        BadEnvironment: the pod's variables are not those of the operator.
    """
    found = connection(Job.of(environment))
    return None if found is None else Client(*found)
