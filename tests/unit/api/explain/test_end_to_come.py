"""An explanation shows when a job is expected to be complete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from di_api.explain.facts import Facts
from di_api.explain.ladder import explain

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def evidence(latest: timedelta, expected: str = "2026-03-01T12:20:00Z") -> list[tuple[str, str]]:
    told = {
        "earliest": "2026-03-01T11:30:00Z",
        "expected": expected,
        "latest": (NOW + latest).isoformat(),
    }
    status: dict[str, Any] = {"phase": "Running", "conditions": [], "expectedCompletion": told}
    job = {"metadata": {"name": "x", "namespace": "rl"}, "spec": {"tasks": []}, "status": status}
    found = explain(Facts(name="x", namespace="rl", now=NOW, job=job))
    return [(each.label, each.text) for each in found.evidence]


def test_the_expected_completion_is_shown_with_its_interval() -> None:
    assert evidence(timedelta(hours=1))[-1] == (
        "ends",
        "expected in about 20m, in four of five cases in 0s to 1h",
    )


def test_after_the_expected_completion_the_latest_one_is_shown() -> None:
    assert evidence(timedelta(minutes=5), "2026-03-01T11:59:00Z")[-1] == (
        "ends",
        "expected in about 5m, in four of five cases in 0s to 5m",
    )


def test_an_expected_completion_in_the_past_is_not_shown() -> None:
    assert "ends" not in dict(evidence(timedelta(seconds=-1)))
