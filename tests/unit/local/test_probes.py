"""What handlers of containers ask, and which answers are good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from di_local.pods.probes import answers

HERE = "127.0.0.1"


async def _status(request: web.Request) -> web.Response:
    """The status that the path names; 500 without the header of the handler."""
    code = int(request.match_info["code"]) if request.headers.get("X-Asks") == "probe" else 500
    return web.Response(status=code, headers={"Location": "/nowhere"})


@asynccontextmanager
async def server() -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/{code}", _status)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HERE, 0)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _execute(command: Sequence[str]) -> int:
    if command == ["hang"]:
        await asyncio.Event().wait()
    return len(command)


def _get(path: str, **fields: Any) -> dict[str, Any]:
    headers = [{"name": "X-Asks", "value": "probe"}]
    return {"httpGet": {"path": path, "port": "http", "httpHeaders": headers, **fields}}


@pytest.mark.parametrize(
    ("handler", "is_good"),
    [
        (_get("/200"), True),
        (_get("200"), True),
        # Where it would lead to is not asked.
        (_get("/302"), True),
        (_get("/400"), False),
        (_get("/199", host="host.invalid"), False),
        (_get("/200", scheme="HTTPS"), False),
        ({"httpGet": {"path": "/200", "port": "http"}}, False),
        ({"tcpSocket": {"port": "http"}}, True),
        ({"tcpSocket": {"port": "http", "host": HERE}}, True),
        ({"tcpSocket": {"port": "closed"}}, False),
        ({"exec": {"command": []}}, True),
        ({"exec": {}}, True),
        ({"exec": {"command": ["false"]}}, False),
    ],
    ids=str,
)
def test_a_handler_is_good_by_status_connection_or_exit_code(
    handler: dict[str, Any], is_good: bool
) -> None:
    async def main() -> bool:
        async with server() as port:
            ports = [
                {"name": "http", "containerPort": port},
                {"name": "closed", "containerPort": 1},
            ]
            container = {"ports": ports}
            return await answers(handler, container, address=HERE, execute=_execute, seconds=None)

    assert asyncio.run(main()) is is_good


def test_a_handler_that_takes_too_long_is_not_good() -> None:
    handler = {"exec": {"command": ["hang"]}}
    found = answers(handler, {}, address=HERE, execute=_execute, seconds=0)
    assert asyncio.run(found) is False
