"""What is reported ends in status.profilings, within bounds."""

from __future__ import annotations

import json

import pytest

from di_server.decisions.profilings import MAX_BYTES, profile
from tests.unit.server.fakes import Stand

PATH = "/v2alpha1/rl.cartpole/profilings"


def test_reports_are_merged(stand: Stand) -> None:
    for body in ({"loss": 1, "env": {"steps": 5}}, {"data": {"env": {"returns": [1, 2]}}}):
        assert stand.client.post(PATH, data=json.dumps(body)).status_code == 200
    assert stand.job()["status"] == {
        "phase": "Running",
        "profilings": {"loss": 1, "env": {"steps": 5, "returns": [1, 2]}},
    }


def test_null_removes_a_key(stand: Stand) -> None:
    stand.client.post(PATH, data='{"a": 1, "b": 2}')
    stand.client.post(PATH, data='{"a": null}')
    assert stand.job()["status"]["profilings"] == {"b": 2}


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
    assert profile(body) == expected


def test_all_reports_together_are_bounded(stand: Stand) -> None:
    half = "x" * (MAX_BYTES // 2)
    assert stand.client.post(PATH, data=json.dumps({"a": half})).status_code == 200
    refused = stand.client.post(PATH, data=json.dumps({"b": half}))
    assert refused.status_code == 422
    assert "at most 32768 bytes" in refused.text
    assert stand.job()["status"]["profilings"].keys() == {"a"}
    assert stand.client.post(PATH, data=json.dumps({"a": "small"})).status_code == 200


def test_a_finished_job_is_left_untouched(stand: Stand) -> None:
    stand.job()["status"]["phase"] = "Failed"
    assert stand.client.post(PATH, data='{"a": 1}').status_code == 409
    assert stand.job()["status"] == {"phase": "Failed"}
