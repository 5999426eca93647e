"""Reading JSON from a stranger: strict, bounded, in linear time."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

# A job with its pod templates, managedFields and status is about 20 deep; profilings, the only
# free-form part, are kept to 32 by the server that writes them.
MAX_DEPTH: Final = 100

# Possessive quantifiers and the optional closing quote keep this linear on any input: an
# unterminated string is consumed once and never tried again from its middle.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


class MalformedJson(ValueError):
    """The text is not JSON as RFC 8259 has it, or passes a bound; the message is for the client."""


def loads(text: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Parse UTF-8 JSON.

    Refused beyond the grammar: duplicate keys (two readers may pick different ones), NaN and
    Infinity (also as 1e999, which could not be written as JSON again), integers of thousands of
    digits, nesting deeper than `max_depth`.

    Raises:
        MalformedJson: for every input that is not accepted; no other error.
    """
    # Before parsing: the parser itself would recurse once per level.
    check_depth(text, max_depth)
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


def check_depth(text: bytes, max_depth: int = MAX_DEPTH) -> None:
    """Count levels of objects and lists, in whatever text.

    Raises:
        MalformedJson: there are more than `max_depth`.
    """
    depth = 0
    for match in _TOKEN.finditer(text):
        first = text[match.start()]
        if first in b"[{":
            depth += 1
            if depth > max_depth:
                raise MalformedJson(f"nested deeper than {max_depth} levels")
        elif first in b"]}":
            depth -= 1


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
