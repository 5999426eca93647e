"""Objects that are kept by the thousand and read now and then."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from zlib import compress, decompress

import orjson
from typing_extensions import override

from di_api.compact import compact

LONGEST_PLAIN: Final = 16 * 1024
"""Bytes of the longest text that is not compressed."""
_LEVEL: Final = 1
"""Of compression: a megabyte takes 20 ms, and little more room than at the others."""


class Packed(Mapping[str, Any]):
    """An object of which some fields are kept as JSON, and parsed each time they are read.

    Parsed JSON takes five to ten times the memory of its text, and the cyclic collector walks all
    of it. A long text is compressed, which makes it a tenth to a half. Read `dict(packed)` first
    where a packed field is read more than once.
    """

    __slots__ = ("_fields",)

    def __init__(self, body: Mapping[str, Any], *, packed: Container[str]) -> None:
        """`body` is JSON; `packed` names the fields to pack, as far as it has them."""
        self._fields = {
            key: _text_of(value) if key in packed else value for key, value in body.items()
        }

    @override
    def __getitem__(self, key: str) -> Any:
        value = self._fields[key]
        # No value of JSON is of that type.
        if isinstance(value, _Compressed):
            return orjson.loads(decompress(value.text))
        return orjson.loads(value) if isinstance(value, bytes) else value

    @override
    def __contains__(self, key: object) -> bool:
        return key in self._fields

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    @override
    def __len__(self) -> int:
        return len(self._fields)


@dataclass(frozen=True, slots=True)
class _Compressed:
    text: bytes


def _text_of(value: Any) -> Any:
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:
        # Nested more deeply than it writes, which is less deep than it reads.
        return value
    if len(text) <= LONGEST_PLAIN:
        return compact(text)
    return _Compressed(compress(text, _LEVEL))


def json_text(value: Any) -> bytes:
    """A value as JSON without spaces; empty for one nested too deeply to be written."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return b""
