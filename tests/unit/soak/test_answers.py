"""Which answers to a creation are as they should be."""

from __future__ import annotations

from typing import Any

import pytest

from tools.soak.admissions import fault_of

ADMITTED = {"spec": {"tasks": [{"name": "learner"}]}}
BARE = {"spec": {"tasks": [{"type": "learner"}]}}
DENIED = {"message": 'admission webhook "validate" denied the request: spec.tasks[0]'}
ANSWERS: dict[str, tuple[int, dict[str, Any], bool, str]] = {
    "a good job is admitted": (201, ADMITTED, False, ""),
    "a bad job is denied": (422, DENIED, True, ""),
    "a bad job is admitted": (201, ADMITTED, True, "a bad job got 201"),
    "a bad job is refused by somebody else": (422, {"message": "invalid"}, True, "a bad job got"),
    "a good job is denied": (422, DENIED, False, "422: admission webhook"),
    "no webhook answers": (500, {"message": "failed calling webhook"}, False, "500: failed"),
    "the mutating webhook is passed by": (201, BARE, False, "admitted without the defaults"),
    "stored by a try whose answer was lost": (409, {"reason": "AlreadyExists"}, False, ""),
}


@pytest.mark.parametrize(("status", "body", "is_bad", "fault"), ANSWERS.values(), ids=ANSWERS)
def test_what_is_wrong_when(status: int, body: dict[str, Any], is_bad: bool, fault: str) -> None:
    found = fault_of(status, body, is_bad=is_bad)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)
