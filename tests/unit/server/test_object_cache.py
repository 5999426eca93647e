"""What threads of requests see of a watch in another thread."""

from __future__ import annotations

from random import Random

import pytest

from di_kube.cache import UNREADABLE
from di_kube.config import KubeConfig
from di_server.storage.caches import Caches
from di_server.storage.informers import Informers
from di_server.storage.object_cache import ObjectCache
from tests.unit.server.fakes import Object

Kept = ObjectCache[Object]


def _object(version: int, name: str = "a", value: str = "x", uid: str = "uid-1") -> Object:
    metadata = {"namespace": "rl", "name": name, "resourceVersion": str(version)}
    return {"metadata": {**metadata, "uid": uid}, "value": value}


@pytest.fixture
def cache() -> Kept:
    """A filled cache of `a` at version 10, found under its value."""
    cache = Kept(
        transform=lambda obj: {**obj, "transformed": True},
        view=lambda obj: obj,
        indexes={"value": lambda obj: [obj["value"]]},
    )
    cache.on_event("ADDED", _object(10))
    cache.mark_synced()
    return cache


def _version(cache: Kept) -> str | None:
    found = cache.get("rl", "a")
    return found["metadata"]["resourceVersion"] if found else None


def test_a_cache_is_empty_until_it_is_synced() -> None:
    cache = Kept(
        transform=dict, view=lambda obj: obj, indexes={"value": lambda obj: [obj["value"]]}
    )
    cache.on_event("ADDED", _object(10))
    assert (cache.get("rl", "a"), cache.values(), cache.by_index("value", "x")) == (None, [], [])
    cache.mark_synced()
    assert cache.synced
    assert len(cache.values()) == len(cache.by_index("value", "x")) == 1


def test_changes_move_objects_between_index_values(cache: Kept) -> None:
    cache.on_event("MODIFIED", _object(11, value="y"))
    cache.on_event("ADDED", _object(12, "b", "y"))
    assert cache.by_index("value", "x") == []
    assert [each["metadata"]["name"] for each in cache.by_index("value", "y")] == ["a", "b"]
    cache.on_event("DELETED", _object(13, value="y"))
    assert [each["metadata"]["name"] for each in cache.by_index("value", "y")] == ["b"]
    assert _version(cache) is None


def test_an_own_write_is_cached_before_the_watch_shows_it(cache: Kept) -> None:
    cache.put_newer(_object(15, value="y"))
    found = cache.get("rl", "a")
    assert found is not None
    assert found["transformed"]
    cache.on_event("MODIFIED", _object(12, value="z"))
    assert _version(cache) == "15"
    assert cache.by_index("value", "z") == []
    cache.on_event("MODIFIED", _object(16))
    assert _version(cache) == "16"


def test_an_own_write_does_not_bring_a_deleted_object_back(cache: Kept) -> None:
    cache.on_event("DELETED", _object(20))
    cache.put_newer(_object(15))
    assert _version(cache) is None


def test_a_deletion_of_an_older_version_counts(cache: Kept) -> None:
    cache.put_newer(_object(15))
    cache.on_event("DELETED", _object(10))
    assert _version(cache) is None


def test_the_deletion_of_an_earlier_object_of_the_name_is_ignored(cache: Kept) -> None:
    cache.put_newer(_object(15, uid="uid-2"))
    cache.on_event("DELETED", _object(12))
    assert _version(cache) == "15"


def test_a_cleared_cache_is_empty(cache: Kept) -> None:
    cache.clear()
    assert not cache.synced
    cache.mark_synced()
    assert (cache.get("rl", "a"), cache.by_index("value", "x")) == (None, [])


def test_a_watch_that_breaks_clears_its_cache(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def __init__(self, **_: object) -> None:
            caches.jobs.mark_synced()
            raise RuntimeError("a mistake of ours")

    caches = Caches()
    monkeypatch.setattr("di_server.storage.informers.KubeClient", Broken)
    config = KubeConfig(server="http://127.0.0.1:9")
    Informers(
        caches=caches,
        config=config,
        namespace=None,
        config_namespace=None,
        nodes=False,
        on_pod=lambda *_: None,
        clock=lambda: 0.0,
        rng=Random(1),
    ).watch()
    assert not caches.jobs.synced
    assert "watching failed" in capsys.readouterr().out


def _picky() -> Kept:
    """A cache of whose objects one has a value that neither view nor index can bear."""

    def view(obj: Object) -> Object:
        if obj["value"] == "unbearable":
            raise KeyError("missing")
        return obj

    cache = Kept(transform=dict, view=view, indexes={"value": lambda obj: [obj["value"]]})
    cache.on_event("ADDED", _object(10))
    cache.mark_synced()
    return cache


def test_an_unreadable_object_is_left_out_alone() -> None:
    cache = _picky()
    cache.on_event("ADDED", _object(11, "b", "unbearable"))
    assert [each["metadata"]["name"] for each in cache.values()] == ["a"]
    assert (cache.get("rl", "b"), cache.unreadable) == (None, 1)


def test_an_object_that_becomes_unreadable_is_left_out() -> None:
    cache = _picky()
    cache.on_event("MODIFIED", _object(11, value="unbearable"))
    assert (cache.get("rl", "a"), cache.by_index("value", "x"), cache.unreadable) == (None, [], 1)
    cache.on_event("MODIFIED", _object(12))
    assert (_version(cache), cache.unreadable) == ("12", 0)


def test_an_object_that_the_watch_could_not_read_is_left_out() -> None:
    cache = _picky()
    cache.on_event("MODIFIED", {**_object(11), UNREADABLE: "AttributeError"})
    assert (cache.get("rl", "a"), cache.unreadable) == (None, 1)
    cache.on_event("DELETED", _object(12))
    assert cache.unreadable == 0


def test_an_older_version_from_the_watch_counts_after_a_restore_of_etcd(cache: Kept) -> None:
    """A list that replaces all the watch had seen has versions of the past."""
    cache.on_event("MODIFIED", _object(5, value="y"))
    assert _version(cache) == "5"
    assert (cache.by_index("value", "x"), len(cache.by_index("value", "y"))) == ([], 1)
    cache.put_newer(_object(6))
    assert _version(cache) == "6"


def test_an_object_is_there_while_a_newer_version_replaces_it() -> None:
    seen: list[object] = []

    def view(obj: Object) -> Object:
        seen.append(kept.get("rl", "a"))
        return obj

    kept = Kept(transform=dict, view=view, indexes={"value": lambda obj: [obj["value"]]})
    kept.mark_synced()
    for version in (10, 11):
        kept.on_event("MODIFIED", _object(version))
    assert seen == [None, _object(10)]
