"""What is reported ends in status.profilings, within bounds."""

from __future__ import annotations

import json

import pytest

from di_server.jobs.profilings import MAX_BYTES
from di_server.jobs.requests import profilings
from tests.unit.server.fakes import Harness

PATH = "/v2alpha1/rl.cartpole/profilings"


def test_reports_are_merged(harness: Harness) -> None:
    for body in ({"loss": 1, "env": {"steps": 5}}, {"data": {"env": {"returns": [1, 2]}}}):
        assert harness.client.post(PATH, data=json.dumps(body)).status_code == 200
    assert harness.job()["status"] == {
        "phase": "Running",
        "profilings": {"loss": 1, "env": {"steps": 5, "returns": [1, 2]}},
    }


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
