"""When the learner adds collectors, and when it removes them."""

from __future__ import annotations

from typing import Any

import pytest
from di_cartpole.scaling import (
    EXTRA,
    NEARLY_SOLVED,
    WAITING,
    WARM_UP_GENERATIONS,
    Progress,
    wanted_change,
)

MEASURED = {"generation": WARM_UP_GENERATIONS, "wait_fraction": WAITING, "mean_return": 50.0}
"""A learner that waits too much, measured for long enough."""
CASES: dict[str, tuple[dict[str, Any], int]] = {
    "a learner that waits adds collectors": ({}, EXTRA),
    "not while it warms up": ({"generation": WARM_UP_GENERATIONS - 1}, 0),
    "not while it waits little": ({"wait_fraction": WAITING - 0.01}, 0),
    "not when training nearly ends": ({"mean_return": NEARLY_SOLVED}, 0),
    "not twice": ({"extra": EXTRA}, 0),
    "all are removed": ({"extra": EXTRA, "mean_return": NEARLY_SOLVED}, -EXTRA),
    "removed even if it waits": (
        {"extra": EXTRA, "mean_return": NEARLY_SOLVED, "wait_fraction": 1.0, "generation": 0},
        -EXTRA,
    ),
    "kept while needed": ({"extra": EXTRA, "mean_return": NEARLY_SOLVED - 1}, 0),
}


@pytest.mark.parametrize(("seen", "change"), CASES.values(), ids=CASES)
def test_the_learner_changes_its_collectors(seen: dict[str, Any], change: int) -> None:
    assert wanted_change(Progress(**{"extra": 0, **MEASURED, **seen})) == change
