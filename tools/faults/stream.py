"""One watch on its way through the proxy: events are held, dropped, repeated, the stream cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from aiohttp import web

from tools.faults.plan import Cut, Drop, Empty, Expire, Hold, Notice, Repeat, StreamAction

Object = dict[str, Any]
_INITIAL_END = {"k8s.io/initial-events-end": "true"}


class Broken(Exception):
    """The stream ends here, without a goodbye."""


class History:
    """What a component was shown of one collection, so that the past can be shown again."""

    def __init__(self) -> None:
        self._start = "0"
        self._events: dict[str, tuple[str, Object]] = {}
        """Kind and object by version, in their order."""

    def add(self, kind: str, body: Object) -> None:
        """Remember an event; a bookmark tells where the collection began."""
        if kind == "BOOKMARK":
            if not self._events:
                self._start = body["metadata"]["resourceVersion"]
        elif kind != "ERROR":
            self._events.setdefault(body["metadata"]["resourceVersion"], (kind, body))

    def state(self, back: int) -> tuple[list[Object], str]:
        """Objects and version as they were ``back`` changes ago."""
        events = list(self._events.values())[: max(0, len(self._events) - back)]
        objects: dict[str, Object] = {}
        for kind, body in events:
            name = body["metadata"]["name"]
            objects.pop(name, None)
            if kind != "DELETED":
                objects[name] = body
        version = events[-1][1]["metadata"]["resourceVersion"] if events else self._start
        return list(objects.values()), version


class Stream:
    """Sends the lines of one watch; ``decide`` names the fault an event meets, if any."""

    def __init__(
        self,
        *,
        response: web.StreamResponse,
        notice: Callable[[str, Mapping[str, Any]], Notice],
        decide: Callable[[Notice], StreamAction | None],
    ) -> None:
        self._response = response
        self._notice = notice
        self._decide = decide
        self._held: dict[str | None, list[bytes]] = {}
        self._loop = asyncio.get_running_loop()
        self._releases: set[asyncio.Task[None]] = set()

    async def take(self, line: bytes) -> bool:
        """Pass on one event; False if the stream has to end in good order.

        Raises:
            Broken: it has to end at once.
        """
        event = orjson.loads(line)
        kind, body = event["type"], event["object"]
        if kind in ("BOOKMARK", "ERROR"):
            # A bookmark says that everything before it was sent: it comes after what is held. The
            # first one ends the list, and nobody begins without it.
            if None in self._held:
                self._held[None].append(line)
            else:
                await self._response.write(line)
            return True
        name = body["metadata"]["name"]
        match self._decide(self._notice(kind, body)):
            case Drop():
                return True
            case Repeat():
                await self._send(name, line)
                await self._send(name, line)
            case Hold(seconds=seconds, whole=whole):
                self._hold(None if whole else name, seconds)
                await self._send(name, line)
            case Cut(torn=torn):
                if torn:
                    await self._response.write(line[: len(line) // 2])
                raise Broken
            case Expire():
                await self._response.write(_GONE)
                return False
            case Empty():
                return False
            case None:
                await self._send(name, line)
        return True

    def close(self) -> None:
        """Forget what is held."""
        for task in self._releases:
            task.cancel()

    async def _send(self, name: str, line: bytes) -> None:
        for key in (None, name):
            if key in self._held:
                self._held[key].append(line)
                return
        await self._response.write(line)

    def _hold(self, key: str | None, seconds: float) -> None:
        if key in self._held:
            return
        self._held[key] = []

        async def release() -> None:
            await asyncio.sleep(seconds)
            for line in self._held.pop(key):
                await self._response.write(line)

        task = self._loop.create_task(release())
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)


def past(objects: list[Object], version: str) -> bytes:
    """The beginning of a watch that shows ``objects`` as all there is at ``version``."""
    end = {"metadata": {"resourceVersion": version, "annotations": _INITIAL_END}}
    lines = [{"type": "ADDED", "object": body} for body in objects]
    lines.append({"type": "BOOKMARK", "object": end})
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)


_GONE = (
    orjson.dumps(
        {
            "type": "ERROR",
            "object": {
                "kind": "Status",
                "metadata": {},
                "code": 410,
                "reason": "Expired",
                "message": "told to be gone",
            },
        }
    )
    + b"\n"
)
