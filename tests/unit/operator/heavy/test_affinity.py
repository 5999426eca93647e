"""What a job's node affinity costs the allocator, counted in expressions that are compared."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.allocator.model.node import (
    MOST_CONDITIONS,
    MOST_LABELS,
    Expression,
    NodeInfo,
    read_constraints,
)
from tests.unit.allocator.objects import job, node, snapshot, task

ROUNDS = 5
NODES = 200


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the expressions that are compared with a node."""
    count, holds = [0], Expression.holds

    def counting(self: Expression, labels: Any) -> bool:
        count[0] += 1
        return holds(self, labels)

    monkeypatch.setattr(Expression, "holds", counting)
    return count


def _affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {key: required}}}


def _term(*expressions: tuple[str, str, list[str]]) -> dict[str, Any]:
    names = ("key", "operator", "values")
    return {"matchExpressions": [dict(zip(names, each, strict=True)) for each in expressions]}


def _nodes(racks: int) -> list[NodeInfo]:
    return [
        NodeInfo(
            name=f"n{number}",
            total={"pods": 10},
            free={"pods": 10},
            labels={"metadata.name": f"n{number}", "rack": f"r{number % racks}"},
        )
        for number in range(NODES)
    ]


def test_alternatives_that_name_values_of_one_label_count_as_one(compared: list[int]) -> None:
    one_by_one = _affinity(*(_term(("rack", "In", [f"r{number}"])) for number in range(24_000)))
    at_once = _affinity(_term(("rack", "In", [f"r{number}" for number in range(24_000)])))
    constraints = read_constraints(one_by_one)
    assert constraints == read_constraints(at_once)
    assert all(constraints.admit(each) for each in _nodes(racks=10))
    assert compared[0] <= 10


@pytest.mark.proves("operations.md#heavy-jobs/nodes-in-the-allocator")
def test_nodes_with_the_same_labels_are_compared_once_in_all_rounds(compared: list[int]) -> None:
    alternatives, racks = 90, 4
    pod = _affinity(
        *(_term(("rack", "In", [f"x{n}"]), ("rack", "Exists", [])) for n in range(alternatives))
    )
    for _ in range(ROUNDS):
        # A job is read again at each of its changes, and nodes are counted again in each round.
        constraints = read_constraints(pod)
        assert not any(constraints.admit(each) for each in _nodes(racks))
    assert compared[0] <= alternatives * racks


def test_labels_that_no_affinity_asks_for_make_no_difference(compared: list[int]) -> None:
    constraints = read_constraints(_affinity(_term(("rack", "In", ["r1"]))))
    assert sum(constraints.admit(each) for each in _nodes(racks=4)) == NODES // 4
    assert compared[0] == 4


@pytest.mark.proves("operations.md#heavy-jobs/node-affinity")
@pytest.mark.parametrize(
    ("pod", "what"),
    [
        (
            _affinity(*(_term(("a", "NotIn", [f"{n}"])) for n in range(MOST_CONDITIONS + 1))),
            f"its node affinity: {MOST_CONDITIONS + 1} expressions",
        ),
        (
            _affinity(*(_term((f"k{n}", "Exists", [])) for n in range(MOST_LABELS + 1))),
            f"its node affinity: {MOST_LABELS + 1} labels",
        ),
        (
            {"tolerations": [{"key": f"k{n}"} for n in range(MOST_CONDITIONS + 1)]},
            f"its tolerations: {MOST_CONDITIONS + 1} entries",
        ),
        (
            {"nodeSelector": {f"k{n}": "" for n in range(MOST_CONDITIONS + 1)}},
            f"its node selector: {MOST_CONDITIONS + 1} labels",
        ),
    ],
)
def test_a_job_with_too_many_conditions_is_left_out_with_the_reason(
    pod: dict[str, Any], what: str
) -> None:
    heavy, light = task("learner"), task("learner")
    heavy["template"]["spec"] |= pod
    found = snapshot(job("heavy", heavy), job("light", light), nodes=[node("n", 4)])
    assert set(found.jobs) == {"rl/light"}
    (left_out,) = found.unreadable.values()
    assert left_out.name == "heavy"
    assert what in left_out.reason
