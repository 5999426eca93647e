"""How much memory the largest node has, as nodes come, change and go."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from di_operator.cluster.largest_node import LargestNode

GI = 2**30


def node(name: str, memory: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"allocatable": {"memory": memory}}}


def test_the_largest_node_is_among_the_present_nodes() -> None:
    largest = LargestNode()
    assert largest.memory() is None
    largest.listen("ADDED", node("a", "4Gi"))
    largest.listen("ADDED", node("b", "8388608Ki"))
    assert largest.memory() == Decimal(8 * GI)
    largest.listen("MODIFIED", node("b", "2Gi"))
    assert largest.memory() == Decimal(4 * GI)
    largest.listen("DELETED", node("a", "4Gi"))
    assert largest.memory() == Decimal(2 * GI)
    largest.listen("DELETED", node("b", "2Gi"))
    assert largest.memory() is None


@pytest.mark.parametrize(
    "odd",
    [
        {"metadata": {"name": "a"}},
        {"metadata": {"name": "a"}, "status": []},
        {"metadata": {"name": "a"}, "status": {"allocatable": "x"}},
        *(node("a", "x"), node("a", None), node("a", []), node("a", "")),
    ],
)
def test_an_unreadable_node_has_no_memory(odd: dict[str, Any]) -> None:
    largest = LargestNode()
    largest.listen("ADDED", odd)
    assert largest.memory() is None
    largest.listen("ADDED", node("b", "1Gi"))
    assert largest.memory() == Decimal(GI)
