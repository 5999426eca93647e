"""A job that goes on says when it is expected to be complete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from di_api.explain.facts import Facts
from di_api.explain.ladder import explain

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def evidence(latest: timedelta) -> list[tuple[str, str]]:
    told = {
        "earliest": "2026-03-01T11:30:00Z",
        "expected": "2026-03-01T11:40:00Z",
        "latest": (NOW + latest).isoformat(),
    }
    status: dict[str, Any] = {"phase": "Running", "conditions": [], "expectedCompletion": told}
    job = {"metadata": {"name": "x", "namespace": "rl"}, "spec": {"tasks": []}, "status": status}
    found = explain(Facts(name="x", namespace="rl", now=NOW, job=job))
    return [(each.label, each.text) for each in found.evidence]


def test_the_end_to_come_is_told_with_its_interval() -> None:
    assert evidence(timedelta(hours=1))[-1] == (
        "ends",
        "expected then; in four of five cases between 2026-03-01T11:30:00Z and "
        "2026-03-01T13:00:00Z",
    )


def test_one_that_should_have_come_is_not() -> None:
    assert "ends" not in dict(evidence(timedelta(seconds=-1)))
