"""The two strict readers of JSON beside orjson, which keeps to RFC 8259 as they do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import orjson

from di_api import strict_json
from di_server.problems import Malformed
from di_server.rest import json_object

_REFUSED: Final = object()
_DEEPEST: Final = strict_json.MAX_DEPTH


def both(text: bytes) -> None:
    """What a reader takes means what orjson says; what it refuses breaks a rule it names."""
    expected = _read(orjson.loads, orjson.JSONDecodeError, text)
    webhook = _read(strict_json.loads, strict_json.MalformedJson, text)
    server = _read(json_object.parse_object, Malformed, text)
    if webhook is not _REFUSED:
        assert _same(webhook, expected) or _is_beyond_orjson(webhook)
    elif expected is not _REFUSED:
        assert _breaks_a_rule_of_both(text, expected, _DEEPEST)
    if server is not _REFUSED:
        assert isinstance(server, dict)
        assert _same(server, expected)
        assert orjson.dumps(server)
    elif isinstance(expected, dict):
        assert _breaks_a_rule_of_both(text, expected, json_object.MAX_DEPTH) or _is_beyond_64_bits(
            text
        )


def _read(read: Callable[[bytes], Any], refusal: type[Exception], text: bytes) -> Any:
    try:
        return read(text)
    except refusal:
        return _REFUSED


def _same(left: object, right: object) -> bool:
    """Whether both are the same JSON; orjson reads integers past 64 bits as floats."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right or float(left) == right
    return type(left) is type(right) and left == right


def _is_beyond_orjson(value: object) -> bool:
    """Halves of surrogate pairs and integers past a float are JSON that orjson does not read."""
    if isinstance(value, dict):
        return any(_is_beyond_orjson(part) for item in value.items() for part in item)
    if isinstance(value, list):
        return any(map(_is_beyond_orjson, value))
    if isinstance(value, str):
        return any("\ud800" <= letter <= "\udfff" for letter in value)
    return isinstance(value, int) and abs(value) >= 10**300


def _breaks_a_rule_of_both(text: bytes, value: object, deepest: int) -> bool:
    """Return whether it is too deep, repeats a key, or has a number of thousands of digits."""
    pairs = 0

    def count(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal pairs
        pairs += len(found) - len(dict(found))
        return dict(found)

    try:
        json.loads(text, object_pairs_hook=count)
    except (RecursionError, ValueError):
        return True
    return pairs > 0 or _depth(value) > deepest


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _is_beyond_64_bits(text: bytes) -> bool:
    found: list[str] = []
    json.loads(text, parse_int=found.append)
    return any(len(each) > 20 or not -(2**63) <= int(each) < 2**63 for each in found)
