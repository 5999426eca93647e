"""Reading request bodies within bounds."""

from __future__ import annotations

from typing import Any, Final

from flask import Request
from marshmallow import EXCLUDE, Schema, ValidationError, fields

from di_server.decisions import scaling
from di_server.decisions.json_object import parse_object
from di_server.problems import Malformed, SlowRequest, TooLarge

MAX_BODY: Final = 64 * 1024
"""Bytes, unless an operation takes more."""


def read_object(request: Request, longest: int = MAX_BODY) -> dict[str, Any]:
    """The body as a JSON object, whatever the Content-Type says.

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


def read_change(body: dict[str, Any], *, sign: int) -> scaling.Change:
    """The change a body of `.../replicas` asks for; unknown keys are ignored.

    Raises:
        Malformed, OutOfBounds: naming the field.
    """
    try:
        values = _SCHEMA.load(body)
    except ValidationError as error:
        found = error.messages_dict
        raise Malformed("; ".join(f"{key}: {' '.join(found[key])}" for key in found)) from error
    return scaling.change(values["replicas"], values["task"], sign=sign)


class _ScalingBody(Schema):
    class Meta:
        unknown = EXCLUDE

    replicas = fields.Integer(
        required=True,
        strict=True,
        error_messages=dict.fromkeys(
            ("required", "null", "invalid", "too_large"), "must be a whole number"
        ),
    )
    task = fields.String(
        load_default=None,
        allow_none=True,
        error_messages={"invalid": "must be the name of a task"},
    )


_SCHEMA: Final = _ScalingBody()
