"""Defaults fill in what is missing, and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from di_api.defaults import defaults_patch, with_defaults, without_defaults
from tests.unit.api.jobs import job, task

SPEC_DEFAULTS: dict[str, Any] = {
    "priority": "normal",
    "cleanPodPolicy": "Running",
    "preemptible": False,
    "backoffLimit": 3,
    "suspend": False,
}


def test_a_bare_spec_gets_all_defaults() -> None:
    bare = job(task("collector"))["spec"]
    assert with_defaults(bare) == SPEC_DEFAULTS | {
        "tasks": [task("collector", name="collector", replicas=1)]
    }


def test_bounds_are_not_written() -> None:
    """An absent bound means one thing to the allocator and another to REST."""
    (filled,) = with_defaults(job()["spec"])["tasks"]
    assert filled.keys().isdisjoint({"minReplicas", "maxReplicas"})


def test_what_the_user_wrote_stays() -> None:
    written = {
        "priority": "high",
        "cleanPodPolicy": "None",
        "preemptible": True,
        "backoffLimit": 0,
        "suspend": True,
        "tasks": [task(name="leader", replicas=2)],
    }
    assert with_defaults(written) == written
    assert defaults_patch({"spec": written}) == []


def test_what_lists_of_a_task_lack_is_filled_in_as_the_crd_does() -> None:
    port = {"name": "http", "port": 80}
    whole = {**port, "protocol": "UDP"}
    task = {"type": "learner", "ports": [{"name": "rpc"}], "service": {"ports": [port, whole]}}
    (filled,) = with_defaults({"tasks": [task]})["tasks"]
    assert filled["ports"] == [{"name": "rpc", "scope": "Pod"}]
    ports = [{**port, "protocol": "TCP"}, whole]
    assert filled["service"] == {"ports": ports, "select": "All"}
    assert with_defaults({"tasks": [filled]})["tasks"] == [filled]
    assert {each["path"] for each in defaults_patch({"spec": {"tasks": [task]}})} >= {
        "/spec/tasks/0/ports",
        "/spec/tasks/0/service",
    }


def test_null_counts_as_missing() -> None:
    filled = with_defaults(job(task(replicas=None, name=None), backoffLimit=None)["spec"])
    assert (filled["backoffLimit"], filled["tasks"][0]["replicas"]) == (3, 1)
    assert filled["tasks"][0]["name"] == "learner"


def test_a_task_of_type_none_gets_no_name() -> None:
    (filled,) = with_defaults(job(task("none"))["spec"])["tasks"]
    assert "name" not in filled


def test_the_patch_says_what_is_missing_and_where() -> None:
    mutated = job(task("none", name="a", replicas=2), task(), **SPEC_DEFAULTS)
    assert defaults_patch(mutated) == [
        {"op": "add", "path": "/spec/tasks/1/name", "value": "learner"},
        {"op": "add", "path": "/spec/tasks/1/replicas", "value": 1},
    ]


def test_the_input_is_not_modified() -> None:
    given = job()
    before = deepcopy(given)
    with_defaults(given["spec"])
    defaults_patch(given)
    assert given == before


@pytest.mark.parametrize("strange", [None, 1, "a", [], {}, {"spec": []}, {"spec": None}])
def test_what_is_no_job_gets_no_patch(strange: Any) -> None:
    assert defaults_patch(strange) == []


PORT: dict[str, Any] = {"name": "http", "port": 80}
TOLD: dict[str, dict[str, Any]] = {
    "nothing": {},
    "tasks that name themselves": {"tasks": [{"type": "collector"}, {"type": "none"}]},
    "another name": {"tasks": [{"type": "collector", "name": "work", "replicas": 2}]},
    "objects and lists of them": {
        "backoffLimit": 0,
        "tasks": [
            {
                "type": "learner",
                "ports": [{"name": "rpc"}],
                "service": {"ports": [PORT, PORT | {"protocol": "UDP"}]},
            }
        ],
    },
    "nothing that anybody understands": {"tasks": [7, None], "backoffLimit": "x", "no": {"a": 1}},
}


@pytest.mark.parametrize("told", TOLD.values(), ids=[*TOLD])
def test_what_a_user_said_is_seen_beneath_the_defaults(told: dict[str, Any]) -> None:
    filled = with_defaults(told)
    assert without_defaults(filled) == told
    assert without_defaults({**filled, "priorityClassName": None}) == told
    assert with_defaults(without_defaults(filled)) == filled
