"""When jobs end, by what they report; and that odd objects cost nobody a view."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
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


def running(*, began: str = "2026-03-01T11:00:00Z", deadline: Any = None, **progress: Any) -> Any:
    return {
        "metadata": {"name": "x", "namespace": "rl", "uid": "uid-x"},
        "spec": {"activeDeadlineSeconds": deadline},
        "status": {"phase": "Running", "startTime": began, "progress": progress},
    }


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (running(step=1, totalSteps=4), "in about 3h"),
        # Of the half hour since the report half an hour of what was left is over.
        (running(step=1, totalSteps=4, reportedAt="2026-03-01T11:30:00Z"), "in about 1h"),
        (running(step=4, totalSteps=4), "in about 0s"),
        (running(step=1, totalSteps=4, deadline=5400), "in 30m at the latest"),
        (running(step=3, totalSteps=4, deadline=7200), "in about 20m"),
        (running(deadline=3000), "in 0s at the latest"),
    ],
)
def test_a_job_ends_at_its_pace_or_at_its_deadline(job: Any, text: str) -> None:
    end = end_of(job, NOW)
    assert end is not None
    assert (end.uid, end.key, end.when()) == ("uid-x", "rl/x", text)
    assert jobs.row(job, NOW).hint == text.removesuffix(" at the latest")


@pytest.mark.parametrize(
    "job",
    [
        running(),
        running(step=0, totalSteps=4),
        running(step=5e-324, totalSteps=4),
        running(step=5, totalSteps=4),
        running(began="", step=1, totalSteps=4),
        running(began="2026-03-01T13:00:00Z", step=1, totalSteps=4),
    ],
)
def test_an_end_that_cannot_be_told_is_none(job: Any) -> None:
    assert end_of(job, NOW) is None


def test_a_job_that_has_ended_or_is_suspended_has_no_end_to_come() -> None:
    job = running(step=1, totalSteps=4)
    job["spec"]["suspend"] = True
    ended = running(step=1, totalSteps=4)
    ended["status"]["completionTimestamp"] = "2026-03-01T11:30:00Z"
    assert ends_of([job, ended], NOW) == []


@pytest.mark.parametrize(
    ("profilings", "text"),
    [
        # It has done a step an hour, with its restarts and waiting; now it does two, or half one.
        ({"step": 1, "trainStepsPerSec": 2 / 3600}, "in about 3h (1h30m to 3h)"),
        ({"step": 1, "trainStepsPerSec": 0.5 / 3600}, "in about 3h (3h to 6h)"),
        ({"envSteps": 1, "envStepsPerSec": 2 / 3600}, "in about 3h (1h30m to 3h)"),
        ({"step": 1, "trainStepsPerSec": 1.05 / 3600}, "in about 3h"),
        # Steps of another kind, or of none.
        ({"step": 1, "trainStepsPerSec": 50}, "in about 3h"),
        ({"step": 1, "envStepsPerSec": 2 / 3600}, "in about 3h"),
        ({"step": 1, "trainStepsPerSec": "2"}, "in about 3h"),
    ],
)
def test_the_pace_of_now_beside_that_since_the_start_makes_a_range(
    profilings: Any, text: str
) -> None:
    job = running(step=1, totalSteps=4)
    job["status"]["profilings"] = profilings
    end = end_of(job, NOW)
    assert end is not None
    assert (end.when(), end.when_between()) == ("in about 3h", text)


def test_a_deadline_is_the_latest_of_a_range() -> None:
    job = running(step=1, totalSteps=4, deadline=5 * 3600)
    job["status"]["profilings"] = {"step": 1, "trainStepsPerSec": 0.5 / 3600}
    end = end_of(job, NOW)
    assert end is not None
    assert end.when_between() == "in about 3h (3h to 4h)"


def test_the_next_end_comes_first() -> None:
    found = ends_of([running(step=1, totalSteps=4), running(step=2, totalSteps=4)], NOW)
    assert [each.when() for each in found] == ["in about 1h", "in about 3h"]


@settings(deadline=None)
@example(odd=["2026-03-01T09:00:00Z", 1, 10**400, 1, None, "Pending", "1", "x", None])
@given(odd=st.lists(_ODD, min_size=9, max_size=9))
def test_what_makes_no_sense_is_shown_all_the_same(odd: list[Any]) -> None:
    began, deadline, step, total, reported, phase, amount, name, spec = odd
    status = {
        "startTime": began,
        "phase": phase,
        "progress": {"step": step, "totalSteps": total, "reportedAt": reported},
        "profilings": {"step": step, "trainStepsPerSec": amount},
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
        assert end.when_between()
    for each in queue.waiting([found], NOW, {"u": None}):
        assert len(queue.cells(each, wide=True)) == len(queue.HEADER_WIDE)
        assert queue.as_json(each)
    nodes = allocation.nodes_of([found], [found], allocation.resource_of([found], None))
    if nodes:
        assert list(allocation.heat_map(nodes, "cpu"))
    assert allocation.as_json(nodes, "cpu")
