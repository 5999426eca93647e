"""The first difference between two JSON values."""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Final, NamedTuple


class _Step(NamedTuple):
    """A key below another step; a linked list, because copying whole paths would be quadratic."""

    above: _Step | None
    key: str | int


_END: Final = object()
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
    """
    pending: list[tuple[_Step | None, object, object]] = [(None, old, new)]
    while pending:
        step, left, right = pending.pop()
        if left is right or (_is_high(step) and _are_written_alike(left, right)):
            continue
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            keys = [*left, *(key for key in right if key not in left)]
            pending += [(_Step(step, k), left.get(k), right.get(k)) for k in reversed(keys)]
        elif isinstance(left, list) and isinstance(right, list):
            pairs = list(enumerate(zip_longest(left, right, fillvalue=_END)))
            pending += [(_Step(step, index), a, b) for index, (a, b) in reversed(pairs)]
        elif _differ(left, right):
            return tuple(reversed(list(_keys(step))))
    return None


def _is_high(step: _Step | None) -> bool:
    for _ in range(_COMPARED_WHOLE):
        if step is None:
            return True
        step = step.above
    return False


def _are_written_alike(left: object, right: object) -> bool:
    if not isinstance(left, dict | list) or not isinstance(right, dict | list):
        return False
    text = written(left)
    return text is not None and text == written(right)


def _differ(left: object, right: object) -> bool:
    # True equals 1 in Python but not in JSON. Containers of different types also differ here.
    return isinstance(left, bool) != isinstance(right, bool) or left != right


def _keys(step: _Step | None) -> Iterator[str | int]:
    while step is not None:
        yield step.key
        step = step.above
