"""Services of tasks: a listening address that forwards to the task's ready pods."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from di_kube.resources import PODS, SERVICES
from di_local.addresses import Network, service_port
from di_local.api.objects import Change, Object, Objects
from di_local.api.selectors import selector

log = structlog.get_logger(__name__)
_AT_ONCE = 1 << 16
_LOOK_SECONDS = 0.2
"""Seconds between two checks whether a pod listens."""


class Services:
    """Forwards connections to ready pods in turn, for each Service with a cluster IP."""

    def __init__(self, objects: Objects, network: Network) -> None:
        self._objects = objects
        self._network = network
        self._turn = itertools.count()
        self._starting: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._unsubscribe = objects.subscribe(self._on_change)

    async def end(self) -> None:
        """Stop listening, and close open connections."""
        self._unsubscribe()
        for server in self._servers:
            server.close()
        tasks = [*self._starting, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_change(self, change: Change) -> None:
        service = change.after
        is_new = change.plural == SERVICES.plural and change.before is None
        if service is None or not is_new or service["spec"].get("clusterIP") == "None":
            return
        for port in service["spec"].get("ports") or ():
            task = asyncio.get_running_loop().create_task(self._listen(service, port))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _listen(self, service: Object, port: Mapping[str, Any]) -> None:
        address = self._network.address(service["metadata"]["name"])
        target = port.get("targetPort") or port["port"]
        if target == port["port"]:
            # A program that listens on all addresses takes the Service's, too, and needs no
            # forwarding; it could not start if the port were taken.
            await self._first_listener(service, port["port"])
        try:
            server = await asyncio.start_server(
                partial(self._accept, service, port), address, service_port(port["port"])
            )
        except OSError as error:
            if target != port["port"]:
                log.error("a Service has no address", port=port["port"], error=str(error))
        else:
            self._servers.append(server)

    async def _first_listener(self, service: Object, number: int) -> None:
        """Wait until a ready pod listens on a port."""
        while True:
            for host, _ in self.backends(service, number):
                with suppress(OSError):
                    _, writer = await asyncio.open_connection(host, number)
                    writer.close()
                    return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _accept(
        self,
        service: Object,
        port: Mapping[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection has a task"
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            found = self.backends(service, port.get("targetPort") or port["port"])
            if found:
                host, number = found[next(self._turn) % len(found)]
                there, back = await asyncio.open_connection(host, number)
                try:
                    await asyncio.gather(_copy(reader, back), _copy(there, writer))
                finally:
                    back.close()
        except OSError:
            # As with any connection to a terminating pod.
            pass
        finally:
            writer.close()

    def backends(self, service: Object, target: int | str) -> list[tuple[str, int]]:
        """Return the addresses of the ready pods behind a Service; `target` is a number or the name
        of a port.
        """
        labels = ",".join(f"{key}={value}" for key, value in service["spec"]["selector"].items())
        pods = self._objects.list(PODS, selector(service["metadata"]["namespace"], labels, ""))
        return [
            (pod["status"]["podIP"], number)
            for pod in pods
            if _is_ready(pod) and (number := _number(pod, target)) is not None
        ]


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


def _number(pod: Object, target: int | str) -> int | None:
    if isinstance(target, int):
        return target
    ports = [port for each in pod["spec"]["containers"] for port in each.get("ports") or ()]
    return next((port["containerPort"] for port in ports if port.get("name") == target), None)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(_AT_ONCE):
        writer.write(part)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()
