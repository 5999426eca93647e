"""Gauges of di-server that are read at each scrape."""

from __future__ import annotations

import math

import pytest

from di_kube.cache import UNREADABLE
from di_server.metrics import Metrics
from di_server.storage.object_cache import ObjectCache
from tests.unit.server.fakes import Object


@pytest.mark.proves(
    "metrics.md#server/di-server-members", "metrics.md#server/di-server-members-waiting"
)
def test_members_and_requests_that_wait_for_them_are_counted() -> None:
    metrics, members = Metrics(), ["a-0"]
    metrics.count_members(lambda: len(members), lambda: 7)
    members.append("a-1")
    assert metrics.registry.get_sample_value("di_server_members") == 2
    assert metrics.registry.get_sample_value("di_server_members_waiting") == 7


@pytest.mark.proves(
    "metrics.md#server/di-server-watched-objects", "metrics.md#server/di-server-unreadable-objects"
)
def test_objects_in_memory_and_those_left_out_are_counted() -> None:
    metrics = Metrics()
    cache = ObjectCache[Object](transform=lambda obj: obj, view=lambda obj: obj, indexes={})
    metrics.watch("pods", cache)

    def shown(name: str) -> float:
        value = metrics.registry.get_sample_value(f"di_server_{name}_objects", {"resource": "pods"})
        assert value is not None
        return value

    assert math.isnan(shown("watched"))
    for name in ("a", "b"):
        cache.on_event("ADDED", _pod(name))
    cache.mark_synced()
    assert (shown("watched"), shown("unreadable")) == (2, 0)
    cache.on_event("MODIFIED", {**_pod("b", version=2), UNREADABLE: "AttributeError"})
    assert shown("unreadable") == 1


def _pod(name: str, version: int = 1) -> Object:
    metadata = {"namespace": "rl", "name": name, "resourceVersion": str(version), "uid": name}
    return {"metadata": metadata}
