"""How what is long is written: JSON, and zlib around it."""

from __future__ import annotations

import zlib
from typing import Any, Final

import orjson

_LEVEL: Final = 6
_TAIL_LINES: Final = 12
_TAIL_BYTES: Final = 2048


def pack(raw: bytes) -> bytes:
    """Compress; the same bytes each time."""
    return zlib.compress(raw, _LEVEL)


def unpack(packed: bytes) -> bytes:
    """The inverse of `pack`."""
    return zlib.decompress(packed)


def to_json(value: Any) -> bytes:
    """As it is kept: without spaces, keys in order."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def from_json(raw: bytes) -> Any:
    """The inverse of `to_json`."""
    return orjson.loads(raw)


def last_lines(text: bytes) -> str:
    """The last lines of a log, for those who will not read all of it.

    A NUL, which PostgreSQL takes in no text, becomes a replacement character.
    """
    lines = text[-_TAIL_BYTES:].decode("utf-8", "replace").replace("\x00", "\ufffd").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])
