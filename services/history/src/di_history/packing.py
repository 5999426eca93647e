"""Encoding of long values: JSON, compressed with zlib."""

from __future__ import annotations

import zlib
from typing import Any, Final

import orjson

_LEVEL: Final = 6
_TAIL_LINES: Final = 12
_TAIL_BYTES: Final = 2048


def pack(raw: bytes) -> bytes:
    """Compress; equal input gives equal output."""
    return zlib.compress(raw, _LEVEL)


def unpack(packed: bytes) -> bytes:
    """The inverse of `pack`."""
    return zlib.decompress(packed)


def to_json(value: Any) -> bytes:
    """Return the stored JSON form: without spaces, keys in order."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def from_json(raw: bytes) -> Any:
    """The inverse of `to_json`."""
    return orjson.loads(raw)


def last_lines(text: bytes) -> str:
    """Return the last lines of a log, for a short view.

    A NUL, which PostgreSQL does not accept in text, becomes a replacement character.
    """
    lines = text[-_TAIL_BYTES:].decode("utf-8", "replace").replace("\x00", "\ufffd").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])
