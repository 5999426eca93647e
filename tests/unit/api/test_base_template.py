"""`spec.template`: one base for the templates of all tasks."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from di_api.base_template import base_patch, fault_of_base, with_base
from di_api.validation import validate_job
from di_local.api.patches import patched
from tests.unit.api.jobs import job

BASE: dict[str, Any] = {
    "metadata": {"labels": {"team": "rl"}},
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "containers": [
            {"name": "di-container", "image": "train:1", "env": [{"name": "A", "value": "1"}]}
        ],
    },
}
SPEC: dict[str, Any] = {
    "template": BASE,
    "tasks": [
        {"type": "learner"},
        {
            "type": "collector",
            "template": {
                "spec": {
                    "nodeSelector": None,
                    "containers": [
                        {
                            "name": "di-container",
                            "command": ["collect"],
                            "env": [{"name": "B", "value": "2"}],
                        },
                        {"name": "proxy", "image": "proxy:1"},
                    ],
                }
            },
        },
    ],
}
BOTH = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
MERGED = {
    "tasks": [
        {"type": "learner", "template": BASE},
        {
            "type": "collector",
            "template": {
                "metadata": {"labels": {"team": "rl"}},
                "spec": {
                    "containers": [
                        {
                            "name": "di-container",
                            "image": "train:1",
                            "command": ["collect"],
                            "env": BOTH,
                        },
                        {"name": "proxy", "image": "proxy:1"},
                    ]
                },
            },
        },
    ]
}


@pytest.mark.proves("dijob.md#one-template-for-all-tasks", "dijob.md#spec/template")
def test_the_template_of_each_task_is_merged_into_the_base() -> None:
    given = deepcopy(SPEC)
    assert with_base(given) == MERGED
    assert given == SPEC
    assert patched({"spec": SPEC}, base_patch({"spec": SPEC})) == {"spec": MERGED}


def test_a_spec_without_a_base_stays_the_same() -> None:
    assert with_base(MERGED) is MERGED
    assert base_patch({"spec": MERGED}) == []
    assert with_base({"template": None, **MERGED}) == MERGED
    # The tasks of an applied file are merged into the same templates again.
    again = {"template": BASE, **MERGED}
    assert with_base(again)["tasks"][0] == MERGED["tasks"][0]


DEEP: Any = {}
for _ in range(40):
    DEEP = {"a": DEEP}


TWICE: Any = {"spec": {"volumes": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}}
NO_LIST = "is a base of the templates of tasks, and the job has no list of tasks"
LONG = "may have 16384 characters in a job with spec.template"


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"template": BASE}, "spec.template", NO_LIST),
        ({"template": BASE, "tasks": {}}, "spec.template", NO_LIST),
        ({"template": BASE, "tasks": []}, "spec.tasks", "has 0 tasks, and a job has 1 to 64"),
        ({"template": 1, "tasks": [{}]}, "spec.template", "must be an object"),
        (
            {"template": DEEP, "tasks": [{}]},
            "spec.template",
            "may be nested 32 levels deep in a job with spec.template",
        ),
        (
            {"template": BASE, "tasks": [{}, {"template": 1}]},
            "spec.tasks[1].template",
            "must be an object",
        ),
        ({"template": {"a": "x" * 20_000}, "tasks": [{}]}, "spec.template", LONG),
        (
            {"template": {}, "tasks": [{"template": {"a": "x" * 20_000}}]},
            "spec.tasks[0].template",
            LONG,
        ),
        (
            {"template": TWICE, "tasks": [{}]},
            "spec.template",
            "has two volumes with the name a",
        ),
        (
            {"template": {}, "tasks": [{"template": TWICE}]},
            "spec.tasks[0].template",
            "has two volumes with the name a",
        ),
    ],
)
def test_a_base_that_cannot_be_merged_stays_and_the_error_names_why(
    spec: dict[str, Any], path: str, message: str
) -> None:
    assert with_base(spec) is spec
    assert base_patch({"spec": spec}) == []
    assert fault_of_base(spec) == (path, message)


def test_a_base_that_was_not_merged_is_refused_with_the_reason() -> None:
    (error,) = validate_job(job(template=BASE))
    assert (error.path, error.message) == fault_of_base(job(template=BASE)["spec"])
    assert "by the webhook, which has not done it" in error.message
    (error,) = validate_job(job(template=TWICE))
    assert (error.path, error.message) == ("spec.template", "has two volumes with the name a")


def test_null_in_the_base_removes_nothing_and_is_not_stored() -> None:
    base = {"spec": {"nodeSelector": None, "tolerations": [{"key": None}]}}
    (merged,) = with_base({"template": base, "tasks": [{}]})["tasks"]
    assert merged == {"template": {"spec": {"tolerations": [{"key": None}]}}}
