"""The stages of pods after a push, and their medians."""

from __future__ import annotations

from typing import Any

import pytest

from tools.benchmarks.own_code import STAGES, Watched, result, stage_of, table


def pod(uid: str = "a", *, ending: bool = False, main: str = "") -> dict[str, Any]:
    metadata = {"uid": uid, **({"deletionTimestamp": "now"} if ending else {})}
    found = {}
    if main:
        found["containerStatuses"] = [{"name": "di-container", "state": {main: {}}}]
    return {"metadata": metadata, "status": found}


@pytest.mark.parametrize(
    ("kind", "seen", "stage"),
    [
        ("ADDED", pod(), "created"),
        ("MODIFIED", pod(main="waiting"), "created"),
        ("MODIFIED", pod(main="running"), "running"),
        ("MODIFIED", pod(ending=True, main="running"), "ending"),
        ("DELETED", pod(ending=True), "gone"),
    ],
)
def test_a_pod_is_in_the_stage_that_its_status_shows(
    kind: str, seen: dict[str, Any], stage: str
) -> None:
    assert stage_of(kind, seen) == stage


def test_the_stages_of_a_round_are_those_first_seen_in_it() -> None:
    watched = Watched()
    for now, kind, seen in (
        (9.0, "MODIFIED", pod("old", main="running")),
        (11.0, "MODIFIED", pod("old", ending=True)),
        (11.5, "MODIFIED", pod("old", ending=True)),
        (12.0, "DELETED", pod("old", ending=True)),
        (12.5, "ADDED", pod("new")),
        (14.0, "MODIFIED", pod("new", main="running")),
        (30.0, "MODIFIED", pod("new", ending=True)),
    ):
        watched.add(kind, seen, now)
    found = watched.after(10.0, 20.0)
    assert list(found) == list(STAGES)
    assert {stage: times for stage, times in found.items() if times} == {
        **{"ending": [1.0], "gone": [2.0], "created": [2.5], "running": [4.0]}
    }
    figures = result([(1.0, 2.0), (3.0, 4.0)], [found])
    assert figures["stages"] == {"ending": 1.0, "gone": 2.0, "created": 2.5, "running": 4.0}
    assert "| running | 4.0 |" in table(figures)
