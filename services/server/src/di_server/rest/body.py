"""Reading request bodies within bounds."""

from __future__ import annotations

from typing import Any

from flask import Request

from di_server.problems import Malformed, SlowRequest, TooLarge
from di_server.rest.json_object import parse_object


def read_object(request: Request, longest: int) -> dict[str, Any]:
    """The body as a JSON object of at most `longest` bytes, whatever the Content-Type says.

    No more than one byte past `longest` is read, whatever Content-Length says or chunks bring.

    Raises:
        Malformed, TooLarge, SlowRequest: what is wrong with it.
    """
    length = request.content_length
    if length is None and not request.environ.get("wsgi.input_terminated"):
        return parse_object(b"")
    too_large = f"the body must not be longer than {longest} bytes"
    if length is not None and length > longest:
        raise TooLarge(too_large)
    try:
        # Not through request.get_data: it takes a time-out for a client that left, and ends a
        # chunked body at the bound as if that were all of it.
        raw = request.environ["wsgi.input"].read(longest + 1 if length is None else length)
    except TimeoutError as error:
        raise SlowRequest("the body did not arrive in time") from error
    except Exception as error:
        # The HTTP server raises types of its own for broken chunks.
        raise Malformed("the body cannot be read to its end") from error
    if len(raw) > longest:
        raise TooLarge(too_large)
    if length is not None and len(raw) < length:
        raise Malformed("the body is shorter than its Content-Length")
    return parse_object(raw)
