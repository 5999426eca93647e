"""What threads of requests see of a watch in another thread."""

from __future__ import annotations

from random import Random

import pytest

from di_api.kube.cache import UNREADABLE
from di_api.kube.config import KubeConfig
from di_server.storage.mirror import Mirror
from di_server.storage.sight import Sight, Watcher
from tests.unit.server.fakes import Object

Kept = Mirror[Object]


def _object(version: int, name: str = "a", value: str = "x", uid: str = "uid-1") -> Object:
    metadata = {"namespace": "rl", "name": name, "resourceVersion": str(version)}
    return {"metadata": {**metadata, "uid": uid}, "value": value}


@pytest.fixture
def mirror() -> Kept:
    """A filled mirror of `a` at version 10, found under its value."""
    mirror = Kept(
        trim=lambda obj: {**obj, "trimmed": True},
        view=lambda obj: obj,
        indexes={"value": lambda obj: [obj["value"]]},
    )
    mirror.follow("ADDED", _object(10))
    mirror.filled()
    return mirror


def _version(mirror: Kept) -> str | None:
    found = mirror.get("rl", "a")
    return found["metadata"]["resourceVersion"] if found else None


def test_before_it_is_filled_it_shows_nothing() -> None:
    mirror = Kept(trim=dict, view=lambda obj: obj, indexes={"value": lambda obj: [obj["value"]]})
    mirror.follow("ADDED", _object(10))
    assert (mirror.get("rl", "a"), mirror.values(), mirror.find("value", "x")) == (None, [], [])
    mirror.filled()
    assert mirror.complete
    assert len(mirror.values()) == len(mirror.find("value", "x")) == 1


def test_changes_move_objects_between_values(mirror: Kept) -> None:
    mirror.follow("MODIFIED", _object(11, value="y"))
    mirror.follow("ADDED", _object(12, "b", "y"))
    assert mirror.find("value", "x") == []
    assert [each["metadata"]["name"] for each in mirror.find("value", "y")] == ["a", "b"]
    mirror.follow("DELETED", _object(13, value="y"))
    assert [each["metadata"]["name"] for each in mirror.find("value", "y")] == ["b"]
    assert _version(mirror) is None


def test_what_was_written_is_seen_before_the_watch_brings_it(mirror: Kept) -> None:
    mirror.absorb(_object(15, value="y"))
    found = mirror.get("rl", "a")
    assert found is not None
    assert found["trimmed"]
    mirror.follow("MODIFIED", _object(12, value="z"))
    assert _version(mirror) == "15"
    assert mirror.find("value", "z") == []
    mirror.follow("MODIFIED", _object(16))
    assert _version(mirror) == "16"


def test_what_was_written_before_a_deletion_does_not_come_back(mirror: Kept) -> None:
    mirror.follow("DELETED", _object(20))
    mirror.absorb(_object(15))
    assert _version(mirror) is None


def test_a_deletion_counts_in_whatever_version_it_comes(mirror: Kept) -> None:
    mirror.absorb(_object(15))
    mirror.follow("DELETED", _object(10))
    assert _version(mirror) is None


def test_the_deletion_of_an_earlier_object_leaves_the_next_one_of_its_name(mirror: Kept) -> None:
    mirror.absorb(_object(15, uid="uid-2"))
    mirror.follow("DELETED", _object(12))
    assert _version(mirror) == "15"


def test_without_a_watch_it_forgets(mirror: Kept) -> None:
    mirror.lost()
    assert not mirror.complete
    mirror.filled()
    assert (mirror.get("rl", "a"), mirror.find("value", "x")) == (None, [])


def test_what_a_watch_has_shown_is_forgotten_when_it_breaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def __init__(self, **_: object) -> None:
            sight.jobs.filled()
            raise RuntimeError("a mistake of ours")

    sight = Sight()
    monkeypatch.setattr("di_server.storage.sight.KubeClient", Broken)
    config = KubeConfig(server="http://127.0.0.1:9")
    Watcher(
        sight=sight,
        config=config,
        namespace=None,
        config_namespace=None,
        nodes=False,
        clock=lambda: 0.0,
        rng=Random(1),
    ).watch()
    assert not sight.jobs.complete
    assert "watching failed" in capsys.readouterr().out


def _picky() -> Kept:
    """A mirror of whose objects one has a value that neither view nor index can bear."""

    def view(obj: Object) -> Object:
        if obj["value"] == "unbearable":
            raise KeyError("missing")
        return obj

    mirror = Kept(trim=dict, view=view, indexes={"value": lambda obj: [obj["value"]]})
    mirror.follow("ADDED", _object(10))
    mirror.filled()
    return mirror


def test_an_object_that_cannot_be_read_is_left_out_alone() -> None:
    mirror = _picky()
    mirror.follow("ADDED", _object(11, "b", "unbearable"))
    assert [each["metadata"]["name"] for each in mirror.values()] == ["a"]
    assert (mirror.get("rl", "b"), mirror.unreadable) == (None, 1)


def test_an_object_that_turns_unreadable_is_not_shown_as_it_was() -> None:
    mirror = _picky()
    mirror.follow("MODIFIED", _object(11, value="unbearable"))
    assert (mirror.get("rl", "a"), mirror.find("value", "x"), mirror.unreadable) == (None, [], 1)
    mirror.follow("MODIFIED", _object(12))
    assert (_version(mirror), mirror.unreadable) == ("12", 0)


def test_what_the_watch_could_not_read_is_left_out() -> None:
    mirror = _picky()
    mirror.follow("MODIFIED", {**_object(11), UNREADABLE: "AttributeError"})
    assert (mirror.get("rl", "a"), mirror.unreadable) == (None, 1)
    mirror.follow("DELETED", _object(12))
    assert mirror.unreadable == 0
