"""Objects that are kept by the thousand and read now and then."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

import orjson
from typing_extensions import override

from di_api.compact import compact


class Packed(Mapping[str, Any]):
    """An object of which some fields are kept as JSON, and parsed each time they are read.

    Parsed JSON takes some five times the room of its text, and the cyclic collector walks all of
    it. Whoever reads a packed field more than once takes `dict(packed)` first.
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


def _text_of(value: Any) -> Any:
    try:
        return compact(orjson.dumps(value))
    except orjson.JSONEncodeError:
        # Nested more deeply than it writes, which is less deep than it reads.
        return value
