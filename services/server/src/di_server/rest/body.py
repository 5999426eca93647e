"""Reading request bodies within bounds."""

from __future__ import annotations

from typing import Any

from flask import Request

from di_server.problems import Malformed, SlowRequest, TooLarge
from di_server.rest.json_object import parse_object


def read_object(request: Request, longest: int) -> dict[str, Any]:
    """Return the body as a JSON object of at most `longest` bytes, whatever its Content-Type.

    At most one byte more than `longest` is read, whatever Content-Length or the chunks.

    Raises:
        Malformed, TooLarge, SlowRequest: the body is invalid, too long or late.
    """
    length = request.content_length
    if length is None and not request.environ.get("wsgi.input_terminated"):
        return parse_object(b"")
    too_large = f"the body must not be longer than {longest} bytes"
    if length is not None and length > longest:
        raise TooLarge(too_large)
    try:
        # Not request.get_data: it mistakes a timeout for a client that left, and cuts a chunked
        # body silently at the limit.
        raw = request.environ["wsgi.input"].read(longest + 1 if length is None else length)
    except TimeoutError as error:
        raise SlowRequest("the body did not arrive in time") from error
    except Exception as error:
        # The HTTP server raises its own types for broken chunks.
        raise Malformed("the body cannot be read to its end") from error
    if len(raw) > longest:
        raise TooLarge(too_large)
    if length is not None and len(raw) < length:
        raise Malformed("the body is shorter than its Content-Length")
    return parse_object(raw)
