"""Each mutation gets the job as the mutations before it have left it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from di_webhook import mutations
from di_webhook.mutations import Change, mutated

FIRST: list[dict[str, Any]] = [
    {"op": "add", "path": "/metadata/annotations/a~1b~0c", "value": "new"},
    {"op": "remove", "path": "/metadata/annotations/gone~1too"},
    {"op": "add", "path": "/spec/tasks/1/replicas", "value": 3},
    {"op": "add", "path": "/spec/tasks/1/name", "value": "two"},
]


def test_a_mutation_sees_what_those_before_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    job: dict[str, Any] = {
        "metadata": {"annotations": {"gone/too": "old", "stays": "old"}},
        "spec": {"tasks": [{"name": "one"}, {"type": "none"}], "priority": "high"},
    }
    seen: list[Any] = []
    last = [{"op": "add", "path": "/spec/suspend", "value": True}]

    def second(change: Change) -> list[dict[str, Any]]:
        seen.append(change.job)
        return last

    monkeypatch.setattr(mutations, "MUTATIONS", (lambda _: FIRST, second))
    before = deepcopy(job)
    assert mutated(Change(job=job, before=None)) == [*FIRST, *last]
    assert seen == [
        {
            "metadata": {"annotations": {"a/b~c": "new", "stays": "old"}},
            "spec": {
                "tasks": [{"name": "one"}, {"type": "none", "replicas": 3, "name": "two"}],
                "priority": "high",
            },
        }
    ]
    assert job == before
    # What no operation touches is shared, not copied.
    assert seen[0]["spec"]["tasks"][0] is job["spec"]["tasks"][0]
