"""The one shape of every response, and the only place where responses are serialised."""

from __future__ import annotations

import orjson
from flask import Request, Response

from di_server.problems import Problem
from di_server.rest.tagged import Tagged

_JSON = "application/json"


def success(message: str, data: object) -> Response:
    """200 with `data`."""
    return _response(200, 0, message, data)


def tagged(message: str, found: Tagged, request: Request) -> Response:
    """200 with data and its ETag, or 304 where the request shows that tag."""
    response = success(message, found.data)
    response.set_etag(found.tag)
    response.make_conditional(request)
    return response


def success_body(message: str, data: object) -> bytes:
    """The bytes of a success, for one that is answered later."""
    return _encode(0, message, data)


def failure(status: int, message: str) -> Response:
    """`status` with nothing but the reason."""
    return _response(status, 1, message, None)


def problem(found: Problem) -> Response:
    """A problem with its status and headers."""
    response = failure(found.status, found.message)
    response.headers.update(found.headers)
    return response


def failure_body(message: str) -> bytes:
    """The bytes of a failure, for responses made before there is a request."""
    return _encode(1, message, None)


def _response(status: int, code: int, message: str, data: object) -> Response:
    return Response(_encode(code, message, data), status=status, mimetype=_JSON)


def _encode(code: int, message: str, data: object) -> bytes:
    # `ding -m dist` turns every ' of a response into " before it parses it, so one apostrophe in
    # a message, also in one quoted from the API server, would break the response for it.
    plain = message.replace("'", "").encode("utf-8", "replace").decode()
    return orjson.dumps(
        {"success": code == 0, "code": code, "message": plain, "data": data},
    )
