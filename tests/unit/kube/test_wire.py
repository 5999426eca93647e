"""Bytes of requests and answers."""

from __future__ import annotations

import gc

import orjson
import pytest

from di_kube import wire
from di_kube.errors import Gone, Unavailable
from di_kube.resources import PODS
from di_kube.wire import Target

TARGET = Target(PODS, "ns", "a")


def test_delete_options_have_only_the_given_fields() -> None:
    plain = wire.delete_options(
        uid=None, resource_version=None, grace_period_seconds=None, propagation="Background"
    )
    assert plain == {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    full = wire.delete_options(
        uid="u", resource_version="7", grace_period_seconds=0, propagation="Foreground"
    )
    assert full["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert full["gracePeriodSeconds"] == 0, "zero is not nothing"


def test_items_of_a_list_get_kind_and_api_version() -> None:
    page = {"items": [{"metadata": {}}, {"kind": "Other", "apiVersion": "x/v1"}]}
    assert wire.take_items(page, PODS) == [
        {"metadata": {}, "apiVersion": "v1", "kind": "Pod"},
        {"kind": "Other", "apiVersion": "x/v1"},
    ]
    assert wire.take_items({"items": None}, PODS) == []


def test_a_query_leaves_out_none() -> None:
    path = wire.url_path("/p", {"watch": True, "limit": 5, "continue": None, "l": "a=b,c"})
    assert path == "/p?watch=true&limit=5&l=a%3Db%2Cc"
    assert wire.url_path("/p", {"a": None}) == "/p"


def test_an_event_is_parsed() -> None:
    obj = {"metadata": {"name": "a"}}
    raw = orjson.dumps({"type": "ADDED", "object": obj})
    assert wire.decode_event(raw, TARGET) == ("ADDED", obj)


def test_an_error_event_is_raised() -> None:
    status = {"metadata": {}, "code": 410, "reason": "Expired", "message": "too old"}
    with pytest.raises(Gone, match="too old"):
        wire.decode_event(orjson.dumps({"type": "ERROR", "object": status}), TARGET)


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"1", b'{"type":"ADDED"}', b'{"type":"ADDED","object":1}']
)
def test_a_line_that_is_no_event_ends_the_stream(raw: bytes) -> None:
    with pytest.raises(Unavailable) as caught:
        wire.decode_event(raw, TARGET)
    assert caught.value.reason == "WatchCut"


def test_the_garbage_collector_runs_again_after_a_large_answer() -> None:
    large = b"[" + b" " * (2 << 20) + b"]"
    assert gc.isenabled()
    with pytest.raises(Unavailable):
        wire.decode_object(large, TARGET)
    assert gc.isenabled()
    with pytest.raises(Unavailable):
        wire.decode_object(large[:-1], TARGET)
    assert gc.isenabled()


def test_a_disabled_garbage_collector_stays_disabled() -> None:
    gc.disable()
    try:
        wire.decode_object(b"{" + b" " * (2 << 20) + b"}", TARGET)
        assert not gc.isenabled()
    finally:
        gc.enable()
