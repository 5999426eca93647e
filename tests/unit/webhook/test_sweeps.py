"""Reviews of DISweeps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_webhook import admission
from di_webhook.budget import Exhausted
from di_webhook.review import Answer
from tests.unit.sweeps.sweeps import LR, sweep
from tests.unit.webhook.reviews import review

KIND = {"group": "diengine.opendilab.org", "version": "v2alpha1", "kind": "DISweep"}


def response(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = answer.body["response"]
    return found


def validated(obj: Any, **others: Any) -> dict[str, Any]:
    return response(admission.validate(review(obj, kind=KIND, **others)))


@pytest.mark.proves("sweeps.md#in-a-cluster", "sweeps.md#what-is-refused")
def test_a_sweep_is_refused_with_the_path_of_each_error() -> None:
    assert validated(sweep())["allowed"]
    seeds = {"name": "n", "field": "tasks[0].replicas", "int": {"min": 0, "max": 4}}
    found = validated(sweep(parameters=[LR, seeds]))
    assert not found["allowed"]
    assert found["status"]["code"] == 422
    assert found["status"]["details"]["kind"] == "DISweep"
    (cause,) = found["status"]["details"]["causes"]
    assert cause["field"] == "spec.parameters[1]"
    assert "spec.template.spec.tasks[0].replicas: must be 1 or more" in cause["message"]


def test_a_changed_sweep_can_keep_the_errors_that_it_had() -> None:
    old = sweep(parallelism=0)
    assert validated(sweep(parallelism=0, stop=True), old=old, operation="UPDATE")["allowed"]
    worse = sweep(parallelism=0, maxSeconds=0)
    found = validated(worse, old=old, operation="UPDATE")
    assert [each["field"] for each in found["status"]["details"]["causes"]] == ["spec.maxSeconds"]
    assert validated({}, old=[], operation="UPDATE")["status"]["code"] == 400


def test_a_sweep_gets_no_defaults() -> None:
    found = response(admission.mutate(review(sweep(), kind=KIND)))
    assert found == {"uid": found["uid"], "allowed": True}


def test_a_sweep_that_takes_too_long_is_refused() -> None:
    calls: list[None] = []

    def check() -> None:
        calls.append(None)
        if len(calls) > 2:
            raise Exhausted

    answer = admission.validate(review(sweep(), kind=KIND), check=check)
    assert "the DISweep took more than" in json.dumps(answer.body)


def test_the_status_of_a_sweep_is_not_reviewed() -> None:
    assert validated({}, subResource="status", operation="UPDATE")["allowed"]
