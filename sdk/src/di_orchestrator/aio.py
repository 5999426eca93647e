"""The client for programs with an asyncio loop: the same requests, awaited.

`aio.Client` has the methods of `Client`; its iterators are asynchronous. Requests are made in
threads of the loop's default executor, which end with their deadline when the caller is cancelled.
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
    """Drive an exchange to its result; raises what it raises."""
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
    """See `di_orchestrator.server.client.Client`."""

    def __init__(self, api: Api, send: Send) -> None:
        self._api = api
        self._send = send

    async def scale(
        self, task: str | None = None, change: int | None = None, *, to: int | None = None
    ) -> int:
        """As `Client.scale`."""
        return await run(scaling(self._api, task, change, to), self._send)

    async def remove(self, *names: str) -> int:
        """As `Client.remove`."""
        return await run(self._api.remove(names), self._send)

    async def replicas(self) -> dict[str, int]:
        """As `Client.replicas`."""
        return await run(self._api.replicas(), self._send)

    async def peers(self, task: str) -> tuple[Peer, ...]:
        """As `Client.peers`."""
        return await run(self._api.peers(task), self._send)

    async def watch_peers(self, task: str) -> AsyncIterator[tuple[Peer, ...]]:
        """As `Client.watch_peers`."""
        known: Peers | None = None
        while True:
            known = await run(self._api.next_peers(task, known), self._send)
            yield known.peers

    async def watch_worlds(self, task: str) -> AsyncIterator[World]:
        """As `Client.watch_worlds`."""
        known: int | None = None
        while True:
            world = await run(self._api.next_world(task, known), self._send)
            known = world.generation
            yield world

    async def members(self, task: str | None = None) -> tuple[Member, ...]:
        """As `Client.members`."""
        return (await run(self._api.members(task), self._send)).members

    async def watch_members(self, task: str | None = None) -> AsyncIterator[tuple[Member, ...]]:
        """As `Client.watch_members`."""
        known: Members | None = None
        while True:
            known = await run(self._api.next_members(task, known), self._send)
            yield known.members


def client(environment: Mapping[str, str] = os.environ) -> Client | None:
    """The client of this pod's job; None outside a job, where one line on stderr says so.

    Raises:
        BadEnvironment: the pod's variables are not those of the operator.
    """
    found = connection(Job.of(environment))
    return None if found is None else Client(*found)
