"""The size of a spec, which determines the cost for every reader of the job.

It is measured before any rule runs, in bounded time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

from di_api.difference import written
from di_api.field_error import FieldError, child
from di_api.spec.bounds import MAX_SPEC_BYTES, MAX_SPEC_VALUES

_PRINTED_BITS: Final = 1024
_BITS_PER_DIGIT: Final = 3
_SIZED: Final = (Mapping, list, str)
_DEEPEST_NAMED: Final = 8
_MOST_COMPARED: Final = 256
"""Maximum number of parts of a value that are measured to find the largest; a longer list is named
itself.
"""


class Weight(NamedTuple):
    """The size of a JSON value."""

    size: int
    """Bytes as compact JSON in UTF-8."""
    values: int
    """Number of objects, lists, strings, numbers, true, false and null; field names are not
    counted.
    """

    @property
    def is_too_much(self) -> bool:
        """Return whether the size exceeds a bound of specs."""
        return self.size > MAX_SPEC_BYTES or self.values > MAX_SPEC_VALUES


def weigh(value: object) -> Weight:
    """Return the size of a JSON value of any depth; for a value beyond a bound, a partial size
    above that bound.

    Without recursion, and at most MAX_SPEC_VALUES values are visited.
    """
    size = values = 0
    pending: list[Iterator[object]] = [iter((value,))]
    while pending and size <= MAX_SPEC_BYTES and values <= MAX_SPEC_VALUES:
        for each in pending.pop():
            values += 1
            if isinstance(each, str):
                size += _text(each)
            elif isinstance(each, Mapping):
                if values + len(each) > MAX_SPEC_VALUES:
                    return Weight(size, values + len(each))
                size += _text("".join(each)) + 2 * len(each) + 2 * max(len(each), 1) - 1
                pending.append(iter(each.values()))
            elif isinstance(each, list):
                if values + len(each) > MAX_SPEC_VALUES:
                    return Weight(size, values + len(each))
                size += max(len(each), 1) + 1
                pending.append(iter(each))
            else:
                size += _scalar(each)
            if size > MAX_SPEC_BYTES or values > MAX_SPEC_VALUES:
                break
    return Weight(size, values)


def may_be_too_much(text: bytes) -> bool:
    """Return whether a spec can exceed a bound, by its compact JSON: a tenth of the work of
    `weigh`.

    Commas and brackets in strings count too, so the answer can be True for a spec within the
    bounds.
    """
    # Each value except the first follows a comma or the beginning of a non-empty object or list.
    opened = text.count(b"[") + text.count(b"{") - text.count(b"[]") - text.count(b"{}")
    values = 1 + text.count(b",") + opened
    return len(text) > MAX_SPEC_BYTES or values > MAX_SPEC_VALUES


def weight_error(spec: Mapping[str, Any]) -> FieldError | None:
    """Return the error for a spec of too many bytes or values, with its largest part; None if it is
    within the bounds.
    """
    found = weigh(spec)
    if not found.is_too_much:
        return None
    size = exact_size(spec)
    path, share = _largest_part(spec)
    if size > MAX_SPEC_BYTES:
        what = f"has {size} bytes as JSON, and a job may have {MAX_SPEC_BYTES}"
    else:
        what = (
            f"has more than {MAX_SPEC_VALUES} values (objects, lists, texts, numbers), "
            f"in {size} bytes"
        )
    advice = "make it smaller, or put it into a ConfigMap or the image"
    message = f"{what}; {share} % of it is {path}: {advice}"
    return FieldError("spec", spec, message)


def exact_size(value: object) -> int:
    """Return the bytes of a value as compact JSON in UTF-8; if it cannot be serialized, the size by
    `weigh`.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return weigh(value).size
    return _encoded(text)


def _scalar(value: object) -> int:
    if value is None or isinstance(value, bool):
        return len("false" if value is False else "true")
    if isinstance(value, int) and value.bit_length() > _PRINTED_BITS:
        # Python refuses to print integers of thousands of digits.
        return value.bit_length() // _BITS_PER_DIGIT
    return len(repr(value))


def _text(text: str) -> int:
    return _encoded(encode_basestring(text))


def _encoded(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _largest_part(spec: Mapping[str, Any]) -> tuple[str, int]:
    """Return the path of the innermost part that contains more than half of a spec, and its
    percentage.
    """
    path, value = "spec", spec
    whole = here = len(written(spec) or b"")
    for _ in range(_DEEPEST_NAMED):
        parts = list(_parts(value))
        if not 0 < len(parts) <= _MOST_COMPARED:
            break
        # The longest part is not serialized again: its size is the total less the others.
        parts.sort(key=lambda each: len(each[1]) if isinstance(each[1], _SIZED) else 0)
        sizes = [len(written(part) or b"") for _, part in parts[:-1]]
        sizes.append(here - sum(sizes))
        largest = max(sizes)
        if largest * 2 <= whole:
            break
        key, value = parts[sizes.index(largest)]
        path, here = child(path, key), largest
    return path, 100 * here // max(whole, 1)


def _parts(value: object) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()
