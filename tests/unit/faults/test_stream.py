"""What a held watch shows, and in which order."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import orjson
from aiohttp import web

from tests.waiting import wait_until_async
from tools.faults.plan import Hold
from tools.faults.stream import Stream


class _Response:
    def __init__(self) -> None:
        self.kinds: list[str] = []

    async def write(self, line: bytes) -> None:
        self.kinds.append(orjson.loads(line)["type"])


def _line(kind: str) -> bytes:
    return orjson.dumps({"type": kind, "object": {"metadata": {"name": "a"}}})


def test_a_bookmark_comes_after_what_is_held() -> None:
    """The one at the end of the list may be all that a watch waits for."""

    async def main() -> list[str]:
        response = _Response()
        stream = Stream(
            response=cast("web.StreamResponse", response),
            notice=lambda _kind, _body: cast("Any", None),
            decide=lambda _notice: Hold(seconds=0, whole=True),
        )
        for kind in ("ADDED", "BOOKMARK"):
            assert await stream.take(_line(kind))
        assert response.kinds == []

        async def are_sent() -> bool:
            return len(response.kinds) == 2

        await wait_until_async(are_sent)
        return response.kinds

    assert asyncio.run(main()) == ["ADDED", "BOOKMARK"]
