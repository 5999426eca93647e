"""What is reported ends in status.profilings, within bounds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from di_api.profilings import read_profilings
from di_kube.errors import Unavailable
from di_server.access.grants import Grant
from di_server.jobs.profilings import MAX_BYTES, Merged, Report, merge, status_patch
from di_server.jobs.requests import profilings
from di_server.model.references import JobRef
from di_server.problems import NotAllowed, OutOfBounds
from tests.unit.server.fakes import Harness, Object, job, make_harness

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = Path(__file__).parents[4] / "docs/how-to/teams-autoscalers.md"
PATH = "/v2alpha1/rl.cartpole/profilings"


def report(harness: Harness, body: Object) -> int:
    return harness.ask(PATH, body)[0]


@pytest.mark.proves(
    "rest.md#operations-on-tasks/post-id-profilings-nodesof-task",
    "rest.md#operations-on-tasks/get-id-profilings",
)
def test_reports_are_merged_and_answered_as_they_are_held(harness: Harness) -> None:
    assert harness.ask(PATH) == (200, {})
    for body in ({"loss": 1, "env": {"steps": 5}}, {"data": {"env": {"returns": [1, 2]}}}):
        assert report(harness, body) == 200
    held = {"loss": 1, "env": {"steps": 5, "returns": [1, 2]}}
    assert harness.job()["status"] == {
        "phase": "Running",
        "profilings": held,
        "progress": {"reportedAt": "2026-01-01T00:00:01Z"},
    }
    assert harness.ask(PATH) == (200, held)
    assert report(harness, {"loss": None}) == 200
    assert harness.ask(PATH)[1].keys() == {"env"}


@pytest.mark.parametrize(
    ("written", "answered"),
    [(256, {"batchSize": 256}), *((other, None) for other in (None, "many", True, 0))],
)
def test_the_answer_is_the_batch_size_that_the_allocator_advises(
    harness: Harness, written: object, answered: object
) -> None:
    harness.job()["status"]["batchSize"] = written
    assert harness.ask(PATH, {"loss": 1}) == (200, answered)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"data": {"a": 1}}, {"a": 1}),
        ({"data": 1}, {"data": 1}),
        ({"data": {"a": 1}, "b": 2}, {"data": {"a": 1}, "b": 2}),
        ({}, {}),
    ],
)
def test_only_a_single_data_object_is_unwrapped(
    body: dict[str, object], expected: dict[str, object]
) -> None:
    assert profilings(body) == expected


def test_all_reports_together_are_bounded(harness: Harness) -> None:
    half = "x" * (MAX_BYTES // 2)
    assert report(harness, {"a": half}) == 200
    status, message = harness.ask(PATH, {"b": half})
    assert (status, "at most 32768 bytes" in message) == (422, True)
    assert harness.job()["status"]["profilings"].keys() == {"a"}
    assert report(harness, {"a": "small"}) == 200


@pytest.mark.proves("rest.md#running-it/di-server-report-seconds")
@pytest.mark.parametrize("seconds", [1.0, 0.25])
def test_reports_of_a_job_are_written_at_the_interval_of_the_settings(seconds: float) -> None:
    harness = make_harness(report_seconds=seconds)
    harness.add(job())
    began = harness.clock()
    assert [report(harness, {"step": step}) for step in range(3)] == [200, 200, 200]
    assert harness.clock() - began == pytest.approx(2 * seconds)


def test_a_job_that_has_finished_or_does_not_exist_takes_no_reports(harness: Harness) -> None:
    harness.job()["status"]["phase"] = "Failed"
    assert report(harness, {"a": 1}) == 409
    assert harness.job()["status"] == {"phase": "Failed"}
    assert harness.ask(PATH.replace("cartpole", "absent"))[0] == 404


def test_profilings_of_another_type_are_answered_as_none(harness: Harness) -> None:
    harness.job()["status"] = {"phase": "Running", "profilings": [1]}
    assert harness.ask(PATH) == (200, {})


def test_the_value_that_the_documents_configure_for_keda_is_answered(harness: Harness) -> None:
    blocks = [yaml.safe_load(b) for b in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)]
    ((trigger,),) = [block["triggers"] for block in blocks if "triggers" in block]
    first, key = trigger["metadata"]["valueLocation"].split(".")
    known, wrong = read_profilings({key: 0.6})
    assert (list(known), wrong) == (["learner_wait_frac"], [])
    report(harness, {key: 0.6})
    assert harness.client.get(PATH).get_json()[first][key] == 0.6
    assert trigger["metadata"]["url"].endswith("/v2alpha1/team.cartpole/profilings")


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
def test_reports_written_together_equal_reports_written_alone(
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


def test_a_removed_object_that_is_set_again_has_only_the_new_keys() -> None:
    found = fold({"env": {"steps": 1, "old": 2}}, {"env": None}, {"env": {"steps": 3}})
    assert found.patch is not None
    assert found.patch["status"]["profilings"] == {"env": {"steps": 3, "old": None}}


def test_a_refused_report_leaves_the_others_to_be_written() -> None:
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
        assert report(harness, {"last": number}) == 200
        assert harness.job()["status"]["profilings"]["last"] == number
    assert harness.clock.now - began >= 19
    harness.kube.failure = Unavailable(kind="DIJob", reason="ConnectionError")
    assert report(harness, {"a": 1}) == 503
