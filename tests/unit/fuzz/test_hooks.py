"""What is made from the OpenAPI document is put to jobs that exist, half of the time."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.fuzz.jobs import COORDINATED, TASKS

MADE: dict[str, dict[str, Any]] = {
    "before_generate_path_parameters": {"id": "x.y"},
    "before_generate_query": {"namespace": "x", "other": "y"},
    "before_generate_body": {"coordinator": "x", "replicas": 1},
}


@pytest.mark.parametrize(("hook", "made"), MADE.items(), ids=MADE)
def test_half_of_all_requests_are_about_jobs_that_exist(
    hook: str, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUZZ_NAMESPACE", "there")
    hooks = importlib.import_module("tools.fuzz.hooks")
    seen: list[dict[str, Any]] = []

    @settings(max_examples=100, database=None)
    @given(getattr(hooks, hook)(None, st.just(made)))
    def draw(found: dict[str, Any]) -> None:
        assert found.keys() == made.keys()
        seen.append(found)

    draw()
    assert made in seen
    known = [each for each in seen if each != made]
    assert known
    for each in known:
        assert any(name in str(each) for name in ("there", TASKS, COORDINATED))
