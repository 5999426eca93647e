"""Probe and hook handlers of core/v1: over HTTP, TCP or by a command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import aiohttp

from di_service.settings import Address

Object = Mapping[str, Any]
Execute = Callable[[Sequence[str]], Awaitable[int]]
"""Runs a command beside a container, and returns its exit code."""


async def answers(
    handler: Object, container: Object, *, address: str, execute: Execute, seconds: float | None
) -> bool:
    """Run a handler; return whether it succeeded within `seconds` (None: no limit).

    Success is a status of 200 to 399, a connection, or exit code 0 (core/v1 Probe,
    LifecycleHandler).
    """
    try:
        async with asyncio.timeout(seconds):
            if http := handler.get("httpGet"):
                return await _get(http, container, address)
            if tcp := handler.get("tcpSocket"):
                host = tcp.get("host") or address
                _, writer = await asyncio.open_connection(host, _port(tcp, container))
                writer.close()
                return True
            return await execute((handler.get("exec") or {}).get("command") or ()) == 0
    except (TimeoutError, OSError, aiohttp.ClientError):
        return False


async def _get(http: Object, container: Object, address: str) -> bool:
    host, path = http.get("host") or address, http.get("path") or "/"
    scheme = str(http.get("scheme") or "HTTP").lower()
    at = Address(host=host, port=_port(http, container))
    url = f"{scheme}://{at}/{path.lstrip('/')}"
    headers = {each["name"]: each["value"] for each in http.get("httpHeaders") or ()}
    async with (
        aiohttp.ClientSession() as session,
        # Probes do not verify certificates (core/v1 HTTPGetAction).
        session.get(url, headers=headers, allow_redirects=False, ssl=False) as response,
    ):
        return 200 <= response.status < 400


def _port(handler: Object, container: Object) -> int:
    port = handler["port"]
    named = {each.get("name"): each["containerPort"] for each in container.get("ports") or ()}
    return int(named.get(port) or port)
