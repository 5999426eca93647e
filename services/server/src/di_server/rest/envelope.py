"""The common form of all responses; only this module serializes them."""

from __future__ import annotations

import orjson
from flask import Request, Response

from di_server.problems import Problem
from di_server.rest.shared import Shared
from di_server.rest.tagged import Tagged

_JSON = "application/json"


def success(message: str, data: object) -> Response:
    """Return a 200 response with `data`."""
    return _response(200, success_body(message, data))


def tagged(message: str, found: Tagged, request: Request) -> Response:
    """Return a 200 response with data and its ETag, or 304 if the request has that tag."""
    response = success(message, found.data)
    response.set_etag(found.tag)
    response.make_conditional(request)
    return response


def success_body(message: str, data: object) -> bytes:
    """Return the body of a successful response; of shared data, one for all."""
    if not isinstance(data, Shared):
        return _encode(0, message, data)
    # Threads that encode it at once return the body of one of them.
    return data.bodies.get(message) or data.bodies.setdefault(
        message, _encode(0, message, data.data)
    )


def failure(status: int, message: str) -> Response:
    """Return a response with the status and only a reason."""
    return _response(status, failure_body(message))


def problem(found: Problem) -> Response:
    """Return the response for a problem, with its status and headers."""
    response = failure(found.status, found.message)
    response.headers.update(found.headers)
    return response


def failure_body(message: str) -> bytes:
    """Return the body of a failure, for responses without a parsed request."""
    return _encode(1, message, None)


def _response(status: int, body: bytes) -> Response:
    return Response(body, status=status, mimetype=_JSON)


def _encode(code: int, message: str, data: object) -> bytes:
    # `ding -m dist` replaces every ' in a response by " before it parses it, so one apostrophe in a
    # message, also in one from the API server, would break the response.
    plain = message.replace("'", "").encode("utf-8", "replace").decode()
    return orjson.dumps(
        {"success": code == 0, "code": code, "message": plain, "data": data},
    )
