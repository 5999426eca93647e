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


def test_a_bare_spec_gets_all_defaults_and_no_bounds() -> None:
    bare = job(task("collector"), task("none"))["spec"]
    assert with_defaults(bare) == SPEC_DEFAULTS | {
        "tasks": [task("collector", name="collector", replicas=1), task("none", replicas=1)]
    }


def test_null_counts_as_missing() -> None:
    null = job(task(replicas=None, name=None), backoffLimit=None)["spec"]
    assert with_defaults(null) == with_defaults(job()["spec"])


def test_given_values_stay() -> None:
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


def test_items_of_lists_get_defaults_as_in_the_crd() -> None:
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


def test_the_patch_adds_missing_fields_by_path() -> None:
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
def test_an_object_that_is_no_job_gets_no_patch(strange: Any) -> None:
    assert defaults_patch(strange) == []


PORT: dict[str, Any] = {"name": "http", "port": 80}
GIVEN: dict[str, dict[str, Any]] = {
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
    "values of other types": {
        "tasks": [7, None, {"ports": 7, "service": 7}],
        "backoffLimit": "x",
        "scheduling": [7],
        "no": {"a": 1},
    },
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=[*GIVEN])
def test_defaults_are_removed_and_given_values_stay(given: dict[str, Any]) -> None:
    filled = with_defaults(given)
    assert without_defaults(filled) == given
    assert without_defaults({**filled, "priorityClassName": None}) == given
    # A program may write the fields in any order.
    assert without_defaults(dict(reversed(filled.items()))) == given
    assert with_defaults(without_defaults(filled)) == filled
