"""Indexes follow every change of the objects."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_kube.store import Kept, Store, as_number
from di_kube.wire import Object


def owner_uids(obj: Kept) -> list[str]:
    return [owner["uid"] for owner in obj["metadata"]["ownerReferences"]]


def made(name: str, owners: list[str]) -> Object:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "ownerReferences": [{"uid": uid} for uid in owners],
        }
    }


names = st.sampled_from(["a", "b", "c"])
owners = st.lists(st.sampled_from(["u", "v", "w"]), unique=True)
changes = st.lists(st.tuples(names, st.none() | owners))


@given(changes)
def test_an_index_equals_a_search_over_all_objects(
    changes: list[tuple[str, list[str] | None]],
) -> None:
    store = Store(indexes={"owner": owner_uids})
    expected: dict[str, Object] = {}
    for name, uids in changes:
        if uids is None:
            store.remove(("ns", name))
            expected.pop(name, None)
        else:
            store.put(made(name, uids))
            expected[name] = made(name, uids)
    assert {obj["metadata"]["name"]: obj for obj in store.items()} == expected
    assert len(store) == len(expected)
    for uid in ("u", "v", "w"):
        found = sorted(obj["metadata"]["name"] for obj in store.by_index("owner", uid))
        assert found == sorted(n for n, obj in expected.items() if uid in owner_uids(obj))
    counted = Counter(uid for obj in expected.values() for uid in owner_uids(obj))
    assert store.tally("owner") == counted


def test_cluster_scoped_objects_have_an_empty_namespace() -> None:
    store = Store(indexes={})
    store.put({"metadata": {"name": "node"}})
    assert store.get(("", "node")) is not None
    assert store.keys() == [("", "node")]


def test_an_unknown_index_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Store(indexes={}).by_index("none", "x")


@pytest.mark.parametrize(("version", "number"), [("17", 17), ("", 0), ("x1", 0), ("-1", 0)])
def test_a_version_is_read_as_a_number(version: str, number: int) -> None:
    assert as_number(version) == number
