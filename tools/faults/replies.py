"""Answers and ends that no API server gave."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus

import orjson
from aiohttp import web

from tools.faults.plan import Refuse, Request

_REASONS = {409: "Conflict", 410: "Expired", 422: "Invalid", 429: "TooManyRequests"}


def since(request: web.Request, version: str) -> str:
    """The same watch, but of the changes since ``version``."""
    query = {
        key: value
        for key, value in request.query.items()
        if key not in ("sendInitialEvents", "resourceVersionMatch")
    }
    return str(request.rel_url.with_query({**query, "resourceVersion": version}))


def abort(request: web.Request) -> web.Response:
    """Break the connection as a crash of the other side does."""
    if request.transport is not None:
        with suppress(ConnectionError):
            request.transport.abort()
    return web.Response()


def refusal(action: Refuse, asked: Request) -> web.Response:
    reason = _REASONS.get(action.code, HTTPStatus(action.code).phrase.replace(" ", ""))
    if action.code == 409 and asked.verb == "create":
        reason = "AlreadyExists"
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"told to answer {action.code}",
        "reason": reason,
        "code": action.code,
    }
    headers = {} if action.retry_after is None else {"Retry-After": str(action.retry_after)}
    return web.Response(
        status=action.code,
        body=orjson.dumps(status),
        headers=headers,
        content_type="application/json",
    )
