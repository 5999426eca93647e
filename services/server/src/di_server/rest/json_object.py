"""Strict parsing of JSON bodies."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from di_server.problems import Malformed

MAX_DEPTH: Final = 32
"""Maximum nesting of objects and lists; deeper values cost every later reader of the job."""
_INT64: Final = range(-(2**63), 2**63)


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse a body as one JSON object (RFC 8259), whatever its Content-Type.

    Refused although Python would accept them: NaN and infinities (also 1e999), duplicate keys (two
    readers of one body would disagree), integers beyond 64 bits and lone surrogates (neither can be
    written to the API server), and nesting beyond MAX_DEPTH.

    Raises:
        Malformed: with the broken rule.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_int64,
        )
    except UnicodeDecodeError as error:
        raise Malformed("the body must be UTF-8") from error
    except json.JSONDecodeError as error:
        raise Malformed(f"the body must be JSON: {error.msg} at byte {error.pos}") from error
    except RecursionError as error:
        raise Malformed(_TOO_DEEP) from error
    if not isinstance(value, dict):
        raise Malformed("the body must be a JSON object")
    _check_inside(value)
    return value


_TOO_DEEP: Final = f"the body must not nest deeper than {MAX_DEPTH} levels"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed("a key of an object must not be repeated")
    return found


def _refuse_constant(name: str) -> float:
    raise Malformed(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Malformed("a number is too large for a 64-bit float")
    return number


def _int64(text: str) -> int:
    # 20 characters hold every 64-bit integer, and int() of a long text is quadratic.
    if len(text) > 20 or (number := int(text)) not in _INT64:
        raise Malformed("a whole number is too large for 64 bits")
    return number


def _check_inside(value: dict[str, Any]) -> None:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                _check_text(*container)
                inner += container.values()
            else:
                inner += container
        _check_text(*(item for item in inner if isinstance(item, str)))
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return
    raise Malformed(_TOO_DEEP)


def _check_text(*texts: str) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Malformed("a string holds half of a surrogate pair") from error
