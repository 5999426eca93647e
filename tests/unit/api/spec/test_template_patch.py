"""Merge patches of pod templates."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from di_api.template_patch import MAX_DEPTH, MAX_SIZE, fault_of_patch, patched

A, B = {"name": "a", "image": "1"}, {"name": "b", "image": "2"}

# The examples of RFC 7386, appendix A, whose target is an object and patch too.
OF_THE_RFC: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]
BY_NAME: list[tuple[Any, Any, Any]] = [
    (
        {"containers": [A, B]},
        {"containers": [{"name": "b", "image": "3"}]},
        [A, {**B, "image": "3"}],
    ),
    ({"containers": [A]}, {"containers": [B]}, [A, B]),
    ({"containers": [A]}, {"containers": [{"name": "a", "image": None}]}, [{"name": "a"}]),
    ({}, {"containers": [{**A, "tty": None}]}, [A]),
    ({"containers": [A]}, {"containers": []}, []),
    (
        {"containers": [A]},
        {"containers": [{"name": "a", "tty": True}, {"name": "a", "image": "4"}]},
        [{"name": "a", "image": "4", "tty": True}],
    ),
    # Lists of other things take the place of what was there.
    ({"containers": [A]}, {"containers": ["a"]}, ["a"]),
    ({"containers": 1}, {"containers": [B]}, [B]),
]


@pytest.mark.parametrize(("target", "patch", "result"), OF_THE_RFC)
def test_fields_are_patched_as_in_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    before = deepcopy((target, patch))
    assert patched(target, patch) == result
    assert (target, patch) == before


@pytest.mark.parametrize(("target", "patch", "result"), BY_NAME)
def test_containers_are_patched_by_name(target: Any, patch: Any, result: Any) -> None:
    before = deepcopy((target, patch))
    assert patched(target, patch) == {"containers": result}
    assert (target, patch) == before


def test_variables_are_patched_by_name_and_mounts_are_not() -> None:
    env, mounts = {"name": "A", "value": "1"}, {"name": "data", "mountPath": "/a"}
    container = {"name": "a", "env": [env], "volumeMounts": [mounts]}
    other = {**mounts, "mountPath": "/b"}
    patch = {"name": "a", "env": [{"name": "B"}], "volumeMounts": [other]}
    assert patched({"containers": [container]}, {"containers": [patch]}) == {
        "containers": [{"name": "a", "env": [env, {"name": "B"}], "volumeMounts": [other]}]
    }


def nested(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = {"a": inner}
    return inner


def test_a_patch_is_bounded() -> None:
    assert fault_of_patch({}) is None
    assert fault_of_patch(nested(MAX_DEPTH, "")) is None
    assert fault_of_patch(nested(MAX_DEPTH + 1, "")) == "may be nested 32 levels deep"
    assert fault_of_patch(nested(100_000, "")) == "may be nested 32 levels deep"
    assert fault_of_patch({"a": "x" * (MAX_SIZE - 1)}) is None
    for large in ({"a": "x" * MAX_SIZE}, {"x" * (MAX_SIZE + 1): ""}, {"a": [1] * (MAX_SIZE // 8)}):
        assert fault_of_patch(large) == "may have 16384 characters"
