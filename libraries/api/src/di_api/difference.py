"""The first difference between two JSON values."""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping
from itertools import chain, count, zip_longest
from typing import Any, Final

_END: Final = object()
_SCALARS: Final = (str, int, float, type(None))
_PLAIN_FORMAT: Final = 2
"""Version of the marshal format: the last one without references, which differ for equal values."""
_COMPARED_WHOLE: Final = 4
"""Levels at which values are compared as a whole first; each level serializes the whole
once more.
"""


def written(value: Any) -> bytes | None:
    """Return a JSON value in Python's marshal format, a hundred times as fast as traversing it.

    Equal for values that are equal as JSON with their keys in the same order. None: it is nested
    too deeply.
    """
    try:
        return marshal.dumps(value, _PLAIN_FORMAT)
    except ValueError:
        return None


def first_difference(old: object, new: object) -> tuple[str | int, ...] | None:
    """Return the keys and indexes of the first difference; None if there is none, () for the values
    themselves.

    A null field equals an absent one, as it does for the API server. Written without recursion,
    because Python's own `==` fails on values nested a thousand deep, which a request can contain.
    Nothing behind the first difference is visited, however much the larger value has.
    """
    if old is new:
        return None
    whole = _parts(old, new)
    if whole is None:
        return () if _differ(old, new) else None
    if written_alike(old, new):
        return None
    # The key of each level, and what is left to compare there.
    path: list[str | int] = []
    pending = [whole]
    while pending:
        for key, left, right in pending[-1]:
            if left is right or (len(pending) < _COMPARED_WHOLE and written_alike(left, right)):
                continue
            parts = _parts(left, right)
            if parts is not None:
                path.append(key)
                pending.append(parts)
                break
            if _differ(left, right):
                return (*path, key)
        else:
            pending.pop()
            if path:
                path.pop()
    return None


def written_alike(left: object, right: object) -> bool:
    """Return whether two objects or lists are equal with their keys in the same order; False for
    values of other types.
    """
    if not isinstance(left, dict | list) or not isinstance(right, dict | list):
        return False
    text = written(left)
    return text is not None and text == written(right)


def _parts(left: object, right: object) -> Iterator[tuple[str | int, object, object]] | None:
    """Return the keys of two objects, or the indexes of two lists, with their values; None for
    other values.
    """
    if isinstance(left, _SCALARS) or isinstance(right, _SCALARS):
        return None
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        keys = chain(left, (key for key in right if key not in left))
        return ((key, left.get(key), right.get(key)) for key in keys)
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip_longest(left, right, fillvalue=_END)
        return ((index, one, other) for index, (one, other) in zip(count(), pairs, strict=False))
    return None


def _differ(left: object, right: object) -> bool:
    # True equals 1 in Python but not in JSON. Containers of different types also differ here.
    return isinstance(left, bool) != isinstance(right, bool) or left != right
