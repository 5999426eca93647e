"""Rows and lines, of objects of any shape."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from di_api.phase import Phase
from di_api.wording import span
from di_cli.render.table import Table, draw
from di_cli.views import describe, events, jobs, pods, top
from di_cli.views.waiting import Goal, Outcome

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOT_HUNG = {"type": "Hung", "status": "False"}
_WORDS = st.sampled_from(
    [
        *(
            "series",
            "metadata",
            "status",
            "spec",
            "phase",
            "Failed",
            "Running",
            "conditions",
            "tasks",
        ),
        *("name", "replicas", "template", "containers", "resources", "limits", "nvidia.com/gpu"),
        *("progress", "step", "totalSteps", "2026-03-01T11:00:00Z", "0001-01-01T00:00:00+14:00"),
        *(
            "creationTimestamp",
            "lastTransitionTime",
            "usage",
            "cpu",
            "message",
            "restartCount",
            "series",
        ),
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _WORDS | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_WORDS, below, max_size=4),
    max_leaves=20,
)
_OBJECT = st.dictionaries(_WORDS, _JSON)


@settings(max_examples=15)
@given(obj=_OBJECT)
def test_an_object_of_any_shape_has_a_row(obj: Any) -> None:
    row = jobs.row(obj, NOW)
    for wide in (False, True):
        table = Table(header=jobs.header(wide=wide), rows=[jobs.cells(row, wide=wide)])
        assert draw(table, coloured=wide)
    assert describe.head(obj, NOW)
    tables = [
        (describe.TASKS, describe.tasks(obj)),
        (describe.CONDITIONS, describe.conditions(obj, NOW)),
        (events.HEADER, events.rows([obj], NOW)),
        (pods.HEADER, pods.rows([obj], NOW)),
    ]
    header, rows = top.by_pod([obj], [obj], {("", ""): 1.0})
    assert draw(Table(header=header, rows=rows))
    for header, rows in tables:
        assert draw(Table(header=header, rows=rows))


def test_control_characters_are_not_printed() -> None:
    table = Table(header=("A", "B"), rows=[("\x1b[2Jx", "two\nlines")])
    assert draw(table) == "A      B\n [2Jx  two lines\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0, "0s"),
        (59, "59s"),
        (192, "3m12s"),
        (600, "10m"),
        (5 * 3600, "5h"),
        (5 * 3600 + 60, "5h1m"),
        (86_400 * 12 + 3600, "12d"),
        (timedelta(days=1, hours=2).total_seconds(), "1d2h"),
    ],
)
def test_spans_have_two_units_at_most(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("goal", "job", "outcome"),
    [
        ("phase=Running", {"status": {"phase": "Running"}}, Outcome.REACHED),
        ("phase=Running", {"status": {"phase": "Pending"}}, Outcome.WAITING),
        ("phase=Running", {}, Outcome.WAITING),
        ("phase=Running", {"status": {"phase": "Failed"}}, Outcome.IMPOSSIBLE),
        ("phase=Running", None, Outcome.IMPOSSIBLE),
        ("delete", None, Outcome.REACHED),
        ("delete", {"status": {"phase": "Failed"}}, Outcome.WAITING),
        ("condition=Hung=False", {"status": {"conditions": [NOT_HUNG]}}, Outcome.REACHED),
        ("condition=Hung", {"status": {"conditions": [NOT_HUNG]}}, Outcome.WAITING),
    ],
)
def test_a_goal_is_reached_impossible_or_pending(goal: str, job: Any, outcome: Outcome) -> None:
    assert Goal.parse(goal).judge(job) is outcome


@pytest.mark.parametrize(
    "text", ["Running", "phase=", "phase=Up", "condition=", "condition=A=Maybe"]
)
def test_a_bad_goal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"{Phase.RUNNING}|condition=TYPE"):
        Goal.parse(text)


@pytest.mark.parametrize(
    ("status", "gpus"),
    [
        ({"phase": "Running"}, 8),
        ({"phase": "Running", "placement": {"learner": ["a"]}}, 4),
        ({"phase": "Pending"}, 0),
        ({"phase": "Pending", "taskStatus": {"learner": {"Pending": 1, "Running": 1}}}, 4),
        ({"phase": "Succeeded", "taskStatus": {"learner": {"Running": 1}}}, 0),
    ],
    ids=["runs", "runs on less", "waits", "waits for the rest", "has ended"],
)
def test_the_gpus_of_a_job_are_those_it_holds(status: dict[str, Any], gpus: int) -> None:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    learner = {
        "name": "learner",
        "type": "learner",
        "replicas": 2,
        "template": {"spec": {"containers": [container]}},
    }
    body = {"metadata": {"name": "x"}, "spec": {"tasks": [learner]}, "status": status}
    assert jobs.row(body, datetime(2026, 1, 1, tzinfo=UTC)).gpus == gpus
    assert jobs.gpus_asked(body) == 8


@pytest.mark.proves("lifecycle.md#idle-jobs")
def test_get_shows_that_learners_wait() -> None:
    told = {"type": "Idle", "status": "True", "message": "the learners have waited"}
    found = {"status": {"conditions": [told, {"type": ["Idle"], "status": "True"}]}}
    assert jobs.problem_lines(found) == ["idle: the learners have waited"]


@pytest.mark.proves("lifecycle.md#heartbeats")
def test_get_names_pods_whose_heartbeats_have_stopped() -> None:
    told = {"type": "MemberSilent", "status": "True", "message": "no heartbeat from x-learner-1"}
    assert jobs.problem_lines({"status": {"conditions": [NOT_HUNG, told]}}) == [
        "silent: no heartbeat from x-learner-1"
    ]
    assert jobs.problem_lines({"status": {"conditions": [{**told, "status": "False"}]}}) == []
