"""What is reported ends in status.profilings, within bounds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.kube.errors import Unavailable
from di_server.access.grants import Grant
from di_server.jobs.profilings import MAX_BYTES, Merged, Report, merge, status_patch
from di_server.jobs.requests import profilings
from di_server.model.references import JobRef
from di_server.problems import NotAllowed, OutOfBounds
from tests.unit.server.fakes import Harness, job

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATH = "/v2alpha1/rl.cartpole/profilings"


def test_reports_are_merged(harness: Harness) -> None:
    for body in ({"loss": 1, "env": {"steps": 5}}, {"data": {"env": {"returns": [1, 2]}}}):
        assert harness.client.post(PATH, data=json.dumps(body)).status_code == 200
    assert harness.job()["status"] == {
        "phase": "Running",
        "profilings": {"loss": 1, "env": {"steps": 5, "returns": [1, 2]}},
        "progress": {"reportedAt": "2026-01-01T00:00:01Z"},
    }


def test_the_answer_is_the_batch_that_the_allocator_advises(harness: Harness) -> None:
    for written, answered in (
        (None, None),
        (256, {"batchSize": 256}),
        ("many", None),
        (True, None),
        (0, None),
    ):
        harness.job()["status"]["batchSize"] = written
        answer = harness.client.post(PATH, data='{"loss": 1}')
        assert answer.get_json()["data"] == answered


def test_null_removes_a_key(harness: Harness) -> None:
    harness.client.post(PATH, data='{"a": 1, "b": 2}')
    harness.client.post(PATH, data='{"a": null}')
    assert harness.job()["status"]["profilings"] == {"b": 2}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"data": {"a": 1}}, {"a": 1}),
        ({"data": 1}, {"data": 1}),
        ({"data": {"a": 1}, "b": 2}, {"data": {"a": 1}, "b": 2}),
        ({}, {}),
    ],
)
def test_only_a_lone_data_object_is_unwrapped(
    body: dict[str, object], expected: dict[str, object]
) -> None:
    assert profilings(body) == expected


def test_all_reports_together_are_bounded(harness: Harness) -> None:
    half = "x" * (MAX_BYTES // 2)
    assert harness.client.post(PATH, data=json.dumps({"a": half})).status_code == 200
    refused = harness.client.post(PATH, data=json.dumps({"b": half}))
    assert refused.status_code == 422
    assert "at most 32768 bytes" in refused.text
    assert harness.job()["status"]["profilings"].keys() == {"a"}
    assert harness.client.post(PATH, data=json.dumps({"a": "small"})).status_code == 200


def test_a_finished_job_is_left_untouched(harness: Harness) -> None:
    harness.job()["status"]["phase"] = "Failed"
    assert harness.client.post(PATH, data='{"a": 1}').status_code == 409
    assert harness.job()["status"] == {"phase": "Failed"}


def fold(held: object, *reports: dict[str, Any], phase: str = "Running") -> Merged:
    raw = job(phase=phase)
    raw["status"]["profilings"] = held
    return status_patch(raw, [Report(each, lambda _: None) for each in reports], NOW)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0, "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)
REPORTS = st.dictionaries(st.sampled_from("abc"), VALUES)


@given(st.lists(REPORTS, min_size=1, max_size=5))
def test_reports_written_together_are_as_if_each_were_written_alone(
    reports: list[dict[str, Any]],
) -> None:
    held, *together = reports
    alone: object = merge(None, held)
    before = alone
    for report in together:
        alone = merge(alone, report)
    found = fold(before, *together)
    if found.patch is None:
        assert not together
        return
    written = merge(before, found.patch["status"]["profilings"])
    # As JSON: to Python 1, 1.0 and True are equal.
    assert orjson.dumps(written, option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        alone, option=orjson.OPT_SORT_KEYS
    )


def test_what_one_removes_another_sets_anew() -> None:
    found = fold({"env": {"steps": 1, "old": 2}}, {"env": None}, {"env": {"steps": 3}})
    assert found.patch is not None
    assert found.patch["status"]["profilings"] == {"env": {"steps": 3, "old": None}}


def test_one_that_is_refused_keeps_no_other_from_being_written() -> None:
    large = {"b": "x" * MAX_BYTES}
    found = fold({}, {"a": 1}, large, {"c": 1})
    assert [type(problem) for problem in found.problems] == [type(None), OutOfBounds, type(None)]
    assert found.patch is not None
    assert found.patch["status"]["profilings"] == {"a": 1, "c": 1}
    assert fold({}, large).patch is None


def test_a_later_job_of_the_name_gets_only_its_own_reports() -> None:
    raw = job(uid="uid-2")
    ref = JobRef("rl", "cartpole")
    reports = [
        Report({"a": 1}, Grant(ref, "uid-1").check),
        Report({"b": 1}, Grant(ref, "uid-2").check),
    ]
    found = status_patch(raw, reports, NOW)
    assert [type(problem) for problem in found.problems] == [NotAllowed, type(None)]
    assert found.patch is not None
    assert found.patch["status"]["profilings"] == {"b": 1}


def test_a_job_writes_once_a_second_however_often_it_reports(harness: Harness) -> None:
    began = harness.clock.now
    for number in range(20):
        answer = harness.client.post(PATH, data=json.dumps({"last": number, str(number): 1}))
        assert answer.status_code == 200
        # Whoever was answered finds it written.
        assert harness.job()["status"]["profilings"]["last"] == number
    assert harness.kube.calls["patch", "dijobs"] == 20
    assert harness.clock.now - began >= 19


def test_what_was_not_written_is_not_acknowledged(harness: Harness) -> None:
    harness.kube.failure = Unavailable(kind="DIJob", reason="ConnectionError")
    assert harness.client.post(PATH, data='{"a": 1}').status_code == 503
