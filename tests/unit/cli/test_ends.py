"""Expected ends of jobs, and views of odd objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from di_cli.views import allocation, jobs, queue
from di_cli.views.ends import end_of, ends_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, -1, 0, 1, 3, 10**400, 1e300, float("nan"), float("inf"), "x", [], {}),
        *("2026-03-01T11:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "7", "1e99"),
        *("Pending", "Running"),
    ]
)


def running(*, began: str = "2026-03-01T11:00:00Z", deadline: Any = None, **ends: str) -> Any:
    """A job with an expected completion at times of this day."""
    told = {key: f"2026-03-01T{time}:00Z" for key, time in ends.items()}
    return {
        "metadata": {"name": "x", "namespace": "rl", "uid": "uid-x"},
        "spec": {"activeDeadlineSeconds": deadline},
        "status": {"phase": "Running", "startTime": began, "expectedCompletion": told},
    }


def expected(moment: str, **others: Any) -> Any:
    return running(earliest=moment, expected=moment, latest=moment, **others)


def test_a_pending_job_shows_its_expected_start() -> None:
    told = {"earliest": "12:10", "expected": "12:25", "latest": "12:40"}
    job = running()
    job["status"] = {
        "phase": "Pending",
        "conditions": [{"type": "Pending", "status": "True", "reason": "WaitingForNodes"}],
        "expectedStart": {key: f"2026-03-01T{time}:00Z" for key, time in told.items()},
    }
    assert jobs.row(job, NOW).hint == "starts in about 25m (10m-40m)"
    job["status"]["phase"] = "Running"
    assert "starts" not in jobs.row(job, NOW).hint
    job["status"] |= {"phase": "Pending", "expectedStart": {"expected": "soon"}}
    assert jobs.row(job, NOW).hint == "di why x"


@pytest.mark.parametrize(
    ("job", "when", "text"),
    [
        (
            running(earliest="13:30", expected="15:00", latest="16:00"),
            "in about 3h",
            "in about 3h (1h30m-4h)",
        ),
        # After the expected time the latest one is left.
        (
            running(earliest="11:00", expected="11:30", latest="12:10"),
            "in about 10m",
            "in about 10m (0s-10m)",
        ),
        (expected("15:00", deadline=5400), "in 30m at the latest", "in 30m"),
        (expected("12:20", deadline=7200), "in about 20m", "in about 20m (20m-20m)"),
        (running(deadline=3000), "in 0s at the latest", "in 0s"),
    ],
)
def test_a_job_ends_as_expected_or_at_its_deadline(job: Any, when: str, text: str) -> None:
    end = end_of(job, NOW)
    assert end is not None
    assert (end.uid, end.key, end.when()) == ("uid-x", "rl/x", when)
    assert jobs.row(job, NOW).hint == text


@pytest.mark.parametrize(
    "job",
    [
        running(),
        running(expected="15:00"),
        # The job was restarted since, and has not been measured again.
        running(earliest="11:00", expected="11:30", latest="11:59"),
        running(earliest="15:00", expected="14:00", latest="16:00"),
        expected("15:00", began=""),
    ],
)
def test_an_incomplete_forecast_has_no_end(job: Any) -> None:
    assert end_of(job, NOW) is None


def test_an_ended_or_suspended_job_has_no_expected_end() -> None:
    job = expected("15:00")
    job["spec"]["suspend"] = True
    ended = expected("15:00")
    ended["status"]["completionTimestamp"] = "2026-03-01T11:30:00Z"
    assert ends_of([job, ended], NOW) == []


def test_the_next_end_comes_first() -> None:
    found = ends_of([expected("15:00"), expected("13:00")], NOW)
    assert [each.when() for each in found] == ["in about 1h", "in about 3h"]


@example(odd=["2026-03-01T09:00:00Z", 1, 10**400, 1, None, "Pending", "1", "x", None])
@given(odd=st.lists(_ODD, min_size=9, max_size=9))
def test_odd_objects_are_shown_without_an_error(odd: list[Any]) -> None:
    began, deadline, step, total, reported, phase, amount, name, spec = odd
    status = {
        "startTime": began,
        "phase": phase,
        "expectedCompletion": {"earliest": step, "expected": total, "latest": reported},
        "allocatable": {"cpu": amount},
        "conditions": spec,
    }
    meta = {"name": name, "namespace": "rl", "uid": "u", "creationTimestamp": began}
    found = {
        "metadata": meta,
        "status": status,
        "spec": {"activeDeadlineSeconds": deadline, "nodeName": name, "containers": spec},
    }
    for end in ends_of([found], NOW):
        assert end.range()
    for each in queue.waiting([found], NOW, {"u": None}):
        assert len(queue.cells(each, wide=True)) == len(queue.HEADER_WIDE)
        assert queue.as_json(each)
    nodes = allocation.nodes_of([found], [found], allocation.resource_of([found], None))
    if nodes:
        assert list(allocation.heat_map(nodes, "cpu"))
    assert allocation.as_json(nodes, "cpu")
