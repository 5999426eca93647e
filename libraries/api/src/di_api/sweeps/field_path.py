"""Paths of fields, such as `tasks[collector].template.spec.containers[0].image`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import mapping

Key = str | int
_FIRST: Final = re.compile(r"[A-Za-z0-9_-]+")
_NEXT: Final = re.compile(
    r"\.(?P<name>[A-Za-z0-9_-]+)|\[(?P<index>\d{1,6})\]"
    r"|\[\"(?P<quoted>[^\"\]]+)\"\]|\[(?P<item>[a-z][a-z0-9-]*)\]"
)
_FORM: Final = (
    'must be a path such as tasks[collector].replicas or spec["a.name/with-dots"], which begins '
    "with the name of a field"
)
_NAMES: Final = ("name", "type")


class BadPath(ValueError):
    """A path is not well-formed, or leads nowhere; the message says which."""


def parse_path(text: str) -> list[Key]:
    """Return the keys of a path: names of fields, and indexes or names of list items.

    Raises:
        BadPath: it is not well-formed.
    """
    found = _FIRST.match(text)
    if found is None:
        raise BadPath(_FORM)
    keys: list[Key] = [found[0]]
    while found.end() < len(text):
        found = _NEXT.match(text, found.end())
        if found is None:
            raise BadPath(_FORM)
        index = found["index"]
        keys.append(found["name"] or found["quoted"] or found["item"] or int(index))
    return keys


def with_value(whole: Any, keys: list[Key], value: Any) -> Any:
    """Return a copy with another value at a path; the last field may be absent.

    Raises:
        BadPath: the path leads to nothing.
    """
    return _with(whole, keys, 0, value)


def _with(whole: Any, keys: list[Key], at: int, value: Any) -> Any:
    if at == len(keys):
        return value
    key = keys[at]
    if isinstance(whole, list):
        index = _index(whole, key)
        return [
            _with(each, keys, at + 1, value) if number == index else each
            for number, each in enumerate(whole)
        ]
    if not isinstance(whole, Mapping) or not isinstance(key, str):
        raise BadPath(f"{key} is below what is neither an object nor a list")
    if key not in whole and at < len(keys) - 1:
        raise BadPath(f"the template has no {key} there")
    return {**whole, str(key): _with(whole.get(key), keys, at + 1, value)}


def _index(items: list[Any], key: Key) -> int:
    if isinstance(key, int):
        if key < len(items):
            return key
        raise BadPath(f"the template has {len(items)} items there, and none with index {key}")
    for index, each in enumerate(items):
        if any(mapping(each).get(name) == key for name in _NAMES):
            return index
    raise BadPath(f"the template has no item {key} there")
