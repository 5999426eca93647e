"""Reading JSON from a stranger: strict, bounded, in linear time."""

from __future__ import annotations

import json
import math
from itertools import accumulate
from typing import Any, Final, NoReturn

# A job with its pod templates, managedFields and status is about 20 deep; profilings, the only
# free-form part, are kept to 32 by the server that writes them.
MAX_DEPTH: Final = 100

_QUOTE: Final = b'"'
_ESCAPED: Final = (rb"\\", rb"\"")
"""Escapes after which a quote may follow that ends no text, in the order in which they are taken
away: of a row of backslashes each pair is one."""
_BRACKETS: Final = b"[]{}"
_NO_BRACKETS: Final = bytes(set(range(256)) - set(_BRACKETS))
_LEVELS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class MalformedJson(ValueError):
    """The text is not JSON as RFC 8259 has it, or passes a bound; the message is for the client."""


class TooManyValues(MalformedJson):
    """The text holds more values than the reader takes."""


def loads(text: bytes, *, max_depth: int = MAX_DEPTH, max_values: int | None = None) -> Any:
    """Parse UTF-8 JSON.

    Refused beyond the grammar: duplicate keys (two readers may pick different ones), NaN and
    Infinity (also as 1e999, which could not be written as JSON again), integers of thousands of
    digits, nesting deeper than `max_depth`, more values than `max_values`.

    Raises:
        TooManyValues: there are more than `max_values`.
        MalformedJson: for every other input that is not accepted; no other error.
    """
    # Before parsing: the parser itself would recurse once per level, and make an object a value.
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
    """Count levels of objects and lists, and values at most, in whatever text.

    A value is an object, a list, a text, a number, true, false or null; names of fields are not
    counted. Takes a twentieth of the time of reading.

    Raises:
        TooManyValues: there are more than `max_values`.
        MalformedJson: there are more levels than `max_depth`.
    """
    plain = text
    for escape in _ESCAPED:
        plain = plain.replace(escape, b"")
    # What is between an odd quote and the next one is a text.
    plain = b"".join(plain.split(_QUOTE)[::2])
    if max_values is not None:
        # Each value but the first follows a comma or the beginning of an object or a list.
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
