"""An HTTP server that speaks the list and watch protocol and fails on command.

A fake only because the real server cannot be told to misbehave: it sends no 410 on request, never
falls silent, and never answers with an empty stream. Everything else is tested on the real one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import orjson
from aiohttp import web

from di_kube.config import KubeConfig
from di_kube.wire import Object

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]
PATH = "/api/v1/namespaces/ns/configmaps"


class MisbehavingServer:
    """ConfigMaps of the namespace "ns"; async context manager, listens on loopback.

    Attributes:
        config: how to reach it.
        objects: what a list answers, by name.
        version: the collection's resource version.
        watch_script, list_script, other_script: replies to the next requests, in order; then
            `watch_default`, true lists and 404.
        lists, watches: the queries received, with the monotonic time under "at".
    """

    def __init__(self, *, streaming_lists: bool = False) -> None:
        self.config = KubeConfig(server="")
        self.objects: dict[str, Object] = {}
        self.version = 100
        self.watch_script: list[Reply] = []
        self.watch_default: Reply = self.healthy
        self.list_script: list[Reply] = []
        self.other_script: list[Reply] = []
        self.lists: list[dict[str, Any]] = []
        self.watches: list[dict[str, Any]] = []
        self._streaming_lists = streaming_lists
        self._queues: list[asyncio.Queue[bytes]] = []
        self._told: list[tuple[int, bytes]] = []
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get(PATH, self._collection)
        app.router.add_route("*", "/{path:.*}", self._other)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.config = KubeConfig(server=f"http://{host}:{port}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def streams(self) -> int:
        """Healthy streams that are open now."""
        return len(self._queues)

    def intervals(self) -> list[float]:
        """Seconds between the watches received."""
        times = [watch["at"] for watch in self.watches]
        return [later - earlier for earlier, later in pairwise(times)]

    def put(self, name: str, *, tell: bool = True, **data: str) -> Object:
        """A write; without `tell` its event never reaches anybody."""
        known = self.objects.get(name)
        self.version += 1
        uid = known["metadata"]["uid"] if known else f"uid-{self.version}"
        obj = configmap(name, uid=uid, version=self.version, data=data)
        self.objects[name] = obj
        if tell:
            self._tell("MODIFIED" if known else "ADDED", obj)
        return obj

    def remove(self, name: str, *, tell: bool = True) -> None:
        self.version += 1
        obj = self.objects.pop(name)
        if tell:
            metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
            self._tell("DELETED", {**obj, "metadata": metadata})

    def send(self, kind: str, obj: Object) -> None:
        """Tell the open healthy streams something that need not be true."""
        for queue in self._queues:
            queue.put_nowait(line(kind, obj))

    def _tell(self, kind: str, obj: Object) -> None:
        self._told.append((self.version, line(kind, obj)))
        self.send(kind, obj)

    # --- replies to watches ---

    async def healthy(self, request: web.Request) -> web.StreamResponse:
        """Every change since the requested version, or from now on."""
        stream = await self._open(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        since = int(request.query.get("resourceVersion") or self.version)
        for version, raw in self._told:
            if version > since:
                queue.put_nowait(raw)
        self._queues.append(queue)
        try:
            while True:
                await stream.write(await queue.get())
        except ConnectionError:
            return stream
        finally:
            self._queues.remove(queue)

    async def silent(self, request: web.Request) -> web.StreamResponse:
        """Open, and nothing ever comes."""
        stream = await self._open(request)
        await asyncio.Event().wait()
        return stream

    async def empty(self, request: web.Request) -> web.StreamResponse:
        """200 and the end."""
        return await self._open(request)

    def say(self, *lines: bytes, cut: bool = False) -> Reply:
        """Some bytes, and then an orderly end or a broken connection."""

        async def reply(request: web.Request) -> web.StreamResponse:
            stream = await self._open(request)
            for raw in lines:
                await stream.write(raw)
            if cut and request.transport is not None:
                request.transport.close()
            return stream

        return reply

    async def _open(self, request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            for obj in self.objects.values():
                await stream.write(line("ADDED", obj))
            await stream.write(bookmark(self.version, initial_end=True))
        return stream

    # --- the protocol ---

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        query: dict[str, Any] = {**request.query, "at": time.monotonic()}
        if request.query.get("watch") != "true":
            self.lists.append(query)
            reply = self.list_script.pop(0) if self.list_script else self.listing
            return await reply(request)
        if request.query.get("sendInitialEvents") == "true" and not self._streaming_lists:
            return await refuse(422, "Invalid")(request)
        self.watches.append(query)
        reply = self.watch_script.pop(0) if self.watch_script else self.watch_default
        return await reply(request)

    async def listing(self, request: web.Request) -> web.StreamResponse:
        """The true list; of one where the request names it."""
        return self.page(request.query.get("fieldSelector", "").removeprefix("metadata.name="))

    def page(self, wanted: str = "") -> web.StreamResponse:
        """The list as it is now."""
        found = [obj for name, obj in self.objects.items() if wanted in ("", name)]
        return answer(
            {
                "kind": "ConfigMapList",
                "metadata": {"resourceVersion": str(self.version)},
                "items": found,
            }
        )

    async def _other(self, request: web.Request) -> web.StreamResponse:
        reply = self.other_script.pop(0) if self.other_script else refuse(404, "NotFound")
        return await reply(request)


def configmap(name: str, *, uid: str, version: int, data: dict[str, str]) -> Object:
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def line(kind: str, obj: Object) -> bytes:
    """One event of a watch."""
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def bookmark(version: int, *, initial_end: bool = False) -> bytes:
    metadata: Object = {"resourceVersion": str(version)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return line("BOOKMARK", {"kind": "ConfigMap", "metadata": metadata})


def gone_event() -> bytes:
    """A 410 inside a stream that began with 200."""
    return line("ERROR", _status(410, "Expired"))


def refuse(code: int, reason: str, headers: dict[str, str] | None = None) -> Reply:
    """An error status."""

    async def reply(request: web.Request) -> web.StreamResponse:
        return answer(_status(code, reason), code, headers)

    return reply


def answer(body: Object, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=orjson.dumps(body), status=code, headers=headers, content_type="application/json"
    )


def _status(code: int, reason: str) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"told to answer {reason}",
        "reason": reason,
        "code": code,
    }
