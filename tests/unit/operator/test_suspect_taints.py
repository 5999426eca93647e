"""Which suspect nodes get a taint, and which lose it."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.cluster.suspect_taints import TAINT, taint_changes

OURS = {"key": TAINT, "effect": "NoSchedule"}
OTHERS = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def nodes(count: int, **taints: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {
            "metadata": {"name": name, "resourceVersion": "7"},
            "spec": {"taints": taints[name]} if name in taints else {},
        }
        for name in (f"n{number}" for number in range(count))
    ]


def changed(found: list[dict[str, Any]], most: int, **suspects: int) -> dict[str, bool]:
    return {each.node: each.is_added for each in taint_changes(found, suspects, most)}


@pytest.mark.proves("lifecycle.md#suspect-nodes")
@pytest.mark.parametrize(
    ("count", "percent", "tainted"),
    [(10, 10, 1), (10, 20, 2), (19, 10, 1), (9, 10, 0), (4, 50, 2), (0, 50, 0)],
)
def test_no_more_than_a_share_of_the_nodes_gets_the_taint(
    count: int, percent: int, tainted: int
) -> None:
    suspects = {f"n{number}": 2 for number in range(10)}
    assert sum(changed(nodes(count), percent, **suspects).values()) == tainted


def test_the_nodes_that_most_jobs_avoid_get_the_taint_first() -> None:
    assert changed(nodes(10), 20, n1=2, n2=5, n3=3) == {"n2": True, "n3": True}


def test_a_tainted_node_keeps_its_taint_before_another_gets_one() -> None:
    assert changed(nodes(10, n1=[OURS]), 10, n1=2, n2=5) == {}
    assert changed(nodes(10, n1=[OURS]), 20, n1=2, n2=5) == {"n2": True}


def test_a_node_that_is_no_longer_suspect_loses_only_this_taint() -> None:
    (change,) = taint_changes(nodes(10, n1=[OTHERS, OURS]), {}, 10)
    assert not change.is_added
    assert change.body == {"metadata": {"resourceVersion": "7"}, "spec": {"taints": [OTHERS]}}
    (change,) = taint_changes(nodes(10, n1=[OURS]), {}, 10)
    assert change.body["spec"] == {"taints": None}


def test_a_suspect_node_keeps_the_taints_of_others() -> None:
    (change,) = taint_changes(nodes(10, n1=[OTHERS]), {"n1": 2, "gone": 3}, 10)
    assert change.taints == (OTHERS, OURS)
