"""Where two JSON values first differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Final, NamedTuple


class _Step(NamedTuple):
    """A key below another step; a chain, because copying whole paths would be quadratic."""

    above: _Step | None
    key: str | int


_END: Final = object()


def first_difference(old: object, new: object) -> tuple[str | int, ...] | None:
    """Keys and indexes down to the first difference; None if there is none, () at the top.

    A field that is null and one that is not there are the same, as they are to the API server.
    Written without recursion: Python's own `==` gives up on values nested a thousand deep,
    which a request may be.
    """
    pending: list[tuple[_Step | None, object, object]] = [(None, old, new)]
    while pending:
        step, left, right = pending.pop()
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            keys = [*left, *(key for key in right if key not in left)]
            pending += [(_Step(step, k), left.get(k), right.get(k)) for k in reversed(keys)]
        elif isinstance(left, list) and isinstance(right, list):
            pairs = list(enumerate(zip_longest(left, right, fillvalue=_END)))
            pending += [(_Step(step, index), a, b) for index, (a, b) in reversed(pairs)]
        elif _differ(left, right):
            return tuple(reversed(list(_keys(step))))
    return None


def _differ(left: object, right: object) -> bool:
    # True equals 1 to Python and not to JSON. Containers of different kinds differ here too.
    return isinstance(left, bool) != isinstance(right, bool) or left != right


def _keys(step: _Step | None) -> Iterator[str | int]:
    while step is not None:
        yield step.key
        step = step.above
