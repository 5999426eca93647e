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
_NEITHER: Final = bytes(set(range(256)) - set(b'[]{}"'))
"""All bytes but brackets and quotes."""
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""One level up or down as a signed byte."""


class MalformedJson(ValueError):
    """The text is not JSON by RFC 8259, or exceeds a bound; the message is for the client."""


class TooManyValues(MalformedJson):
    """The text contains more values than the reader accepts."""


def loads(text: bytes, *, max_depth: int = MAX_DEPTH, max_values: int | None = None) -> Any:
    """Parse UTF-8 JSON.

    Some JSON of the grammar is refused too. Two readers can pick different ones of duplicate keys.
    NaN and Infinity (also as 1e999) could not be written as JSON again. Integers of thousands of
    digits, nesting deeper than `max_depth`, and more values than `max_values` cost too much.

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
    for escape in _ESCAPED:
        if escape in text:
            text = text.replace(escape, b"")
    # Each value except the first follows a comma or the beginning of an object or a list.
    if max_values is not None and _separators(text) >= max_values:
        values = 1 + _separators(_outside_strings(text))
        if values > max_values:
            raise TooManyValues(f"has up to {values} values, more than {max_values}")
    if text.count(b"[") + text.count(b"{") <= max_depth:
        # Most jobs of a list: the rest takes longer than all else that is done for one.
        return
    # Two adjacent quotes are a string without brackets, or change nothing for the others.
    brackets = _outside_strings(text.translate(None, _NEITHER).replace(_QUOTE * 2, b""))
    steps = memoryview(brackets.translate(_STEPS)).cast("b")
    if max(accumulate(steps), default=0) > max_depth:
        raise MalformedJson(f"nested deeper than {max_depth} levels")


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _outside_strings(text: bytes) -> bytes:
    """Return a text without escapes, less its strings: those between an odd quote and the next."""
    return b"".join(text.split(_QUOTE)[::2])


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
