"""Which bodies are JSON objects."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_server.problems import Malformed
from di_server.rest.json_object import MAX_DEPTH, parse_object


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        *((raw, "must be JSON") for raw in (b"", b"{", b"{} {}", "\ufeff{}".encode())),
        *((raw, "must be a JSON object") for raw in (b"[]", b"null", b'"text"')),
        *((raw, "must be UTF-8") for raw in (b"\xff\xfe{}", b"\x1f\x8b\x08")),
        (b'{"a":1,"a":1}', "must not be repeated"),
        (b'{"b":{"a":1,"a":2}}', "must not be repeated"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":-Infinity}', "-Infinity is not JSON"),
        (b'{"a":1e999}', "too large for a 64-bit float"),
        (b'{"a":9223372036854775808}', "too large for 64 bits"),
        (b'{"a":' + b"1" * 10_000 + b"}", "too large for 64 bits"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b'{"\\ud800":1}', "surrogate"),
        (b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", "deeper than 32"),
        (b'{"a":' * 20_000, "deeper than 32"),
        (b"[" * 60_000, "deeper than 32"),
    ],
    ids=lambda value: ascii(value[:24]),
)
def test_other_bodies_are_refused_with_the_rule(raw: bytes, rule: str) -> None:
    with pytest.raises(Malformed, match=rule):
        parse_object(raw)


def test_the_deepest_allowed_body_is_read() -> None:
    inner = MAX_DEPTH - 1
    raw = b'{"a":' + b"[" * inner + b"]" * inner + b"}"
    assert parse_object(raw) == json.loads(raw)


_TEXT = st.text(max_size=10)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner),
    max_leaves=10,
)


# No deadlines: a loaded machine would miss them, and the rule says nothing about time.
@given(st.dictionaries(_TEXT, _JSON))
def test_every_json_object_is_read_as_it_was_written(value: dict[str, Any]) -> None:
    assert parse_object(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_refused(raw: bytes) -> None:
    with contextlib.suppress(Malformed):
        assert isinstance(parse_object(raw), dict)
