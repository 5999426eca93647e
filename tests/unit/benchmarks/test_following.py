"""What a bystander makes of what it saw."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.follower import Seen, is_ready
from tests.benchmarks.throughput import ready_to_running


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [{"type": "Ready", "status": "True"}]}, True),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, False),
        ({"conditions": [{"type": "Initialized", "status": "True"}]}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_pod_is_ready_when_its_condition_says_so(status: Any, expected: bool) -> None:
    assert is_ready({"status": status}) is expected


def test_running_counts_from_the_last_pods_readiness() -> None:
    seen = Seen(ready={"a": 1.0, "b": 3.0}, phases={"Starting": 0.5, "Running": 3.25})
    assert ready_to_running([seen]) == [0.25]


def test_a_job_never_seen_running_has_no_such_time() -> None:
    assert ready_to_running([Seen(ready={"a": 1.0}, phases={"Succeeded": 2.0})]) == []


def test_watches_that_overtake_each_other_give_no_negative_time() -> None:
    assert ready_to_running([Seen(ready={"a": 2.0}, phases={"Running": 1.9})]) == [0.0]
