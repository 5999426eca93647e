"""The LimitRange that does not allow a pod; the refusal has its bound, not its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from di_api.explain.facts import Object, text_of
from di_api.field_error import items, mapping
from di_api.quantity import parse_quantity

_USAGE: Final = re.compile(r"\b(maximum|minimum) (\S{1,253}) usage per (\w+) is ([\w.]+)")
_RATIO: Final = re.compile(r" max limit to request ratio per (\w+) is ([\w.]+)")
_FIELDS: Final = {"maximum": "max", "minimum": "min"}
Bound = tuple[str, str, str, str]
"""A field of a limit, its resource, the type of object that it is for, and the value."""


def breaks_limits(texts: Iterable[str]) -> bool:
    """Return whether a message is about a bound of a LimitRange."""
    return any(_USAGE.search(text) or _RATIO.search(text) for text in texts)


def limit_range_of(message: str, ranges: Iterable[Object]) -> str:
    """Return the name of the LimitRange with a bound of the message; empty if it is unknown."""
    bounds = list(_bounds(message))
    found = [
        text_of(mapping(each.get("metadata")).get("name"))
        for each in ranges
        if any(_has(each, bound) for bound in bounds)
    ]
    return found[0] if len(found) == 1 else ""


def _bounds(message: str) -> Iterator[Bound]:
    for word, resource, kind, value in _USAGE.findall(message):
        yield _FIELDS[word], resource, kind, value
    for found in _RATIO.finditer(message):
        resource = message[: found.start()].rpartition(" ")[2].lstrip("[")
        yield "maxLimitRequestRatio", resource, found[1], found[2]


def _has(limits: Object, bound: Bound) -> bool:
    field, resource, kind, value = bound
    return any(
        each.get("type") == kind and _equals(mapping(each.get(field)).get(resource), value)
        for each in map(mapping, items(mapping(limits.get("spec")).get("limits")))
    )


def _equals(amount: object, value: str) -> bool:
    try:
        return isinstance(amount, str | int) and parse_quantity(amount) == parse_quantity(value)
    except (ValueError, ArithmeticError):
        return False
