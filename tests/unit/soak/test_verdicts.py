"""What counts against the services in a soak run."""

from __future__ import annotations

from typing import Any

import pytest

from tools.soak.admissions import fault_of
from tools.soak.stage import Kills

ADMITTED = {"spec": {"tasks": [{"name": "learner"}]}}
BARE = {"spec": {"tasks": [{"type": "learner"}]}}
DENIED = {"message": 'admission webhook "validate" denied the request: spec.tasks[0]'}
ANSWERS: dict[str, tuple[int, dict[str, Any], bool, str]] = {
    "a good job is admitted": (201, ADMITTED, False, ""),
    "a bad job is denied": (422, DENIED, True, ""),
    "a bad job is admitted": (201, ADMITTED, True, "a bad job got 201"),
    "something else refuses a bad job": (422, {"message": "invalid"}, True, "a bad job got"),
    "a good job is denied": (422, DENIED, False, "422: admission webhook"),
    "no webhook answers": (500, {"message": "failed calling webhook"}, False, "500: failed"),
    "the mutating webhook is bypassed": (201, BARE, False, "admitted without the defaults"),
    "stored by a try whose answer was lost": (409, {"reason": "AlreadyExists"}, False, ""),
}


@pytest.mark.parametrize(("status", "body", "is_bad", "fault"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_a_fault_when(
    status: int, body: dict[str, Any], is_bad: bool, fault: str
) -> None:
    found = fault_of(status, body, is_bad=is_bad)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


def test_a_kill_explains_failures_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr("tools.soak.stage.time.monotonic", lambda: now)
    kills = Kills()
    assert not kills.explain(0, 99)
    kills.begin()
    assert [kills.explain(*span) for span in ((9, 11), (50, 51), (8, 9))] == [True, True, False]
    now = 12.0
    kills.end()
    assert [kills.explain(*span) for span in ((11, 20), (13, 20))] == [True, False]
