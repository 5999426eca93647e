"""Parser for untrusted JSON: strict, bounded, in linear time."""

from __future__ import annotations

import json
import math
from itertools import accumulate
from typing import Any, Final, NoReturn

# A job with its pod templates, managedFields and status is about 20 levels deep. The server limits
# profilings, the only free-form part, to 32.
MAX_DEPTH: Final = 100

_QUOTE: Final = b'"'
_ESCAPED: Final = (rb"\\", rb"\"")
"""Escapes that can precede a quote that does not end a string, in the order of removal: in a row of
backslashes each pair is one.
"""
_BRACKETS: Final = b"[]{}"
_NO_BRACKETS: Final = bytes(set(range(256)) - set(_BRACKETS))
_LEVELS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class MalformedJson(ValueError):
    """The text is not JSON by RFC 8259, or exceeds a bound; the message is for the client."""


class TooManyValues(MalformedJson):
    """The text contains more values than the reader accepts."""


def loads(text: bytes, *, max_depth: int = MAX_DEPTH, max_values: int | None = None) -> Any:
    """Parse UTF-8 JSON.

    Beyond the grammar these are refused: duplicate keys (two readers can pick different ones), NaN
    and Infinity (also as 1e999, which could not be written as JSON again), integers of thousands of
    digits, nesting deeper than `max_depth`, more values than `max_values`.

    Raises:
        TooManyValues: there are more than `max_values`.
        MalformedJson: for every other input that is not accepted; no other error.
    """
    # Before parsing, because the parser would recurse once per level, and create an object for each
    # value.
    check_size(text, max_depth, max_values)
    try:
        return json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except MalformedJson:
        raise
    except UnicodeDecodeError as error:
        raise MalformedJson(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise MalformedJson(f"not JSON: {error.msg} at character {error.pos}") from error
    except ValueError as error:  # int() refuses thousands of digits
        raise MalformedJson("a number has too many digits") from error


def check_size(text: bytes, max_depth: int = MAX_DEPTH, max_values: int | None = None) -> None:
    """Check an upper estimate of nesting and number of values in any text.

    A value is an object, a list, a string, a number, true, false or null; field names are not
    counted. Takes a twentieth of the time of parsing.

    Raises:
        TooManyValues: there are more than `max_values`.
        MalformedJson: there are more levels than `max_depth`.
    """
    plain = text
    for escape in _ESCAPED:
        plain = plain.replace(escape, b"")
    # The text between an odd quote and the next one is a string.
    plain = b"".join(plain.split(_QUOTE)[::2])
    if max_values is not None:
        # Each value except the first follows a comma or the beginning of an object or a list.
        values = 1 + plain.count(b",") + plain.count(b"[") + plain.count(b"{")
        if values > max_values:
            raise TooManyValues(f"has up to {values} values, more than {max_values}")
    steps = map(_LEVELS.__getitem__, plain.translate(None, _NO_BRACKETS))
    if any(depth > max_depth for depth in accumulate(steps)):
        raise MalformedJson(f"nested deeper than {max_depth} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise MalformedJson(f"duplicate key {json.dumps(key[:80])}")
            seen.add(key)
    return result


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise MalformedJson("a number is too large for a 64-bit float")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedJson(f"{name} is not a JSON value")
