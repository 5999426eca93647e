"""How large a spec may be, and what becomes of jobs that were larger before."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given

from di_api.spec.bounds import MAX_SPEC_BYTES, MAX_SPEC_VALUES
from di_api.validation import may_be_too_much, validate_job, validate_update, weigh
from tests.unit.api.jobs import Job, job
from tests.unit.api.refusals import changed
from tests.unit.api.test_any_json import JSON


def with_variable(value: str, **spec: Any) -> Job:
    body = job(**spec)
    container = body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "A", "value": value}]
    return body


def exactly(size: int) -> Job:
    """A good job whose spec has as many bytes."""
    rest = len(json.dumps(with_variable("")["spec"], separators=(",", ":")))
    return with_variable("x" * (size - rest))


@given(JSON)
def test_the_weight_is_close_to_the_bytes_of_the_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    found = weigh(value)
    assert abs(found.size - len(text.encode("utf-8", "surrogatepass"))) <= found.values


@given(JSON)
def test_no_more_values_are_found_than_the_text_can_have(value: Any) -> None:
    text = json.dumps(value, separators=(",", ":")).encode()
    empty = sum(map(text.count, (b"[]", b"{}")))
    most = 1 + sum(map(text.count, (b",", b"[", b"{"))) - empty
    assert weigh(value).values <= most
    assert not may_be_too_much(text)


@pytest.mark.parametrize("values", [[0] * (MAX_SPEC_VALUES + 1), ["x" * MAX_SPEC_BYTES]])
def test_what_is_too_much_is_not_overlooked_in_its_text(values: list[Any]) -> None:
    assert may_be_too_much(json.dumps(values, separators=(",", ":")).encode())


@pytest.mark.proves("dijob.md#how-large-a-job-may-be/bytes-of-spec-as-compact-json")
def test_a_spec_may_have_as_many_bytes_as_the_bound() -> None:
    assert validate_job(exactly(MAX_SPEC_BYTES)) == []
    (error,) = validate_job(exactly(MAX_SPEC_BYTES + 1))
    assert error.path == "spec"


@pytest.mark.parametrize("character", ["\x01", "\n", "é", "\U0001f600", '"'])
def test_a_text_weighs_what_its_json_does(character: str) -> None:
    size = len(json.dumps(character, ensure_ascii=False).encode()) - 2
    assert validate_job(with_variable(character * (MAX_SPEC_BYTES // size - 200))) == []
    assert [e.path for e in validate_job(with_variable(character * (MAX_SPEC_BYTES // size)))] == [
        "spec"
    ]


@pytest.mark.proves(
    "dijob.md#how-large-a-job-may-be/values-in-spec-objects-lists-texts",
    "security.md#what-a-review-may-cost/256-kib-and-32-768-values",
)
def test_a_spec_may_not_have_more_values_than_the_bound() -> None:
    body = job()
    body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["args"] = [""] * MAX_SPEC_VALUES
    (error,) = validate_job(body)
    assert error.path == "spec"
    assert f"more than {MAX_SPEC_VALUES} values" in error.message


CHANGES: dict[str, tuple[str, Any]] = {
    "suspended": ("spec.suspend", True),
    "scaled": ("spec.tasks[0].replicas", 2),
    "given another priority": ("spec.priority", "high"),
    "labelled": ("metadata.labels", {"a": "b"}),
    "freed of its finalizers": ("metadata.finalizers", []),
}


@pytest.mark.proves("dijob.md#how-large-a-job-may-be/bytes-of-spec-as-compact-json")
@pytest.mark.parametrize(("path", "value"), CHANGES.values(), ids=CHANGES)
def test_a_job_from_before_the_bound_may_be_changed(path: str, value: Any) -> None:
    old = with_variable("x" * (6 * MAX_SPEC_BYTES), suspend=False, priority="normal")
    old["spec"]["tasks"][0]["replicas"] = 3
    assert validate_update(old, changed(deepcopy(old), path, value)) == []


def test_a_job_may_not_pass_the_bound_by_a_change() -> None:
    policy = {"rules": [{"onReasons": ["a" * 200] * 60, "action": "Ignore"}] * 16}
    near = with_variable("x" * (MAX_SPEC_BYTES - 100_000))
    large = changed(deepcopy(near), "spec.failurePolicy", policy)
    assert [error.path for error in validate_update(near, large)] == ["spec"]
    # One that is past it already is judged by the change.
    heavy = with_variable("x" * MAX_SPEC_BYTES)
    huge = {"rules": [{"onReasons": ["a" * MAX_SPEC_BYTES], "action": "Ignore"}]}
    assert validate_update(heavy, changed(deepcopy(heavy), "spec.failurePolicy", huge)) != []
    resumed = [changed(deepcopy(heavy), "spec.suspend", value) for value in (True, False)]
    assert validate_update(*resumed) == []


def test_templates_that_did_not_change_are_not_judged_again() -> None:
    old = with_variable("x", suspend=False)
    old["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["ports"] = [
        {"hostPort": -1, "x": 1}
    ]
    assert validate_job(old) != []
    assert validate_update(old, changed(deepcopy(old), "spec.suspend", True)) == []
    moved = changed(deepcopy(old), "spec.tasks[0].template.spec.containers[0].ports", [{"x": 1}])
    assert validate_update(old, moved) != []
