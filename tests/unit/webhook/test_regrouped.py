"""Warnings about a change of replicas that replaces all pods of a process group."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.webhook.reviews import job
from tests.unit.webhook.test_overruled import warnings

PATH = "spec.tasks[0].replicas"
SAID = (
    f"{PATH}: the process group of task learner has a fixed size: scaling replaces all its pods, "
    "which go on from their last checkpoint"
)
TORCH = {"framework": "torch"}
IN_PLACE = {"rules": [{"action": "RestartInPlace"}]}


def group(replicas: int, fields: Any = TORCH, **spec: Any) -> dict[str, Any]:
    new = job(**spec)
    new["spec"]["tasks"][0] |= {"replicas": replicas, "processGroup": fields}
    return new


@pytest.mark.parametrize("replicas", [1, 4])
@pytest.mark.proves(
    "process-groups.md#groups-of-a-fixed-size/is-added-or-removed-the-task-is-scaled"
)
def test_scaling_a_group_of_fixed_size_is_a_warning(replicas: int) -> None:
    assert warnings(group(replicas), group(3)) == [SAID]


def test_a_framework_whose_variables_have_the_size_is_warned_about_in_place_too() -> None:
    assert warnings(group(4, failurePolicy=IN_PLACE), group(3, failurePolicy=IN_PLACE)) == [SAID]


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (group(3), None),
        (group(3, backoffLimit=9), group(3)),
        (group(4, suspend=True), group(3, suspend=True)),
        (job(), job()),
        (group(4, {}, failurePolicy=IN_PLACE), group(3, {}, failurePolicy=IN_PLACE)),
    ],
)
def test_what_replaces_no_group_gives_no_warning(
    new: dict[str, Any], old: dict[str, Any] | None
) -> None:
    assert warnings(new, old) == []


def test_an_elastic_group_gives_no_warning() -> None:
    both = [group(n, {**TORCH, "elastic": True, "lastCallSeconds": 5}) for n in (3, 4)]
    for each in both:
        each["spec"]["tasks"][0] |= {"minReplicas": 2, "maxReplicas": 4}
    assert warnings(both[1], both[0]) == []
