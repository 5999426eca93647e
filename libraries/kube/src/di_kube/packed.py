"""Objects that are cached by the thousand and read rarely, in compact form."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from zlib import compress, decompress

import orjson
from typing_extensions import override

from di_kube.compact import compact

LONGEST_PLAIN: Final = 16 * 1024
"""Bytes up to which a text is stored uncompressed."""
_LEVEL: Final = 1
"""Compression level: a megabyte takes 20 ms, and is little larger than at higher levels."""


class Packed(Mapping[str, Any]):
    """An object with some fields stored as JSON text, which is parsed at each access.

    Parsed JSON takes five to ten times the memory of its text, and the garbage collector traverses
    all of it. A long text is compressed to between a tenth and a half. Read `dict(packed)` first if
    you read a packed field more than once.
    """

    __slots__ = ("_fields",)

    def __init__(self, body: Mapping[str, Any], *, packed: Container[str]) -> None:
        """`body` is JSON; `packed` names the fields to pack; missing ones are ignored."""
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


def unpacked(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with all of its fields parsed: each access to a packed one returns another
    copy, which no comparison by identity finds again.
    """
    return dict(body) if isinstance(body, Packed) else body


@dataclass(frozen=True, slots=True)
class _Compressed:
    text: bytes


def _text_of(value: Any) -> Any:
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:
        # Nested too deeply for the JSON writer, whose limit is lower than the reader's.
        return value
    if len(text) <= LONGEST_PLAIN:
        return compact(text)
    return _Compressed(compress(text, _LEVEL))


def json_text(value: Any) -> bytes:
    """Return a value as JSON without spaces; empty if it is nested too deeply to be written."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return b""
