"""`spec.template`: one base for the templates of all tasks."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from di_api.base_template import NOT_MERGED, base_patch, with_base
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


@pytest.mark.proves("dijob.md#one-template-for-all-tasks")
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


@pytest.mark.parametrize(
    "spec",
    [
        {"template": BASE},
        {"template": BASE, "tasks": []},
        {"template": BASE, "tasks": {}},
        {"template": 1, "tasks": [{}]},
        {"template": DEEP, "tasks": [{}]},
        {"template": BASE, "tasks": [{"template": 1}]},
        {"template": BASE, "tasks": [{"template": DEEP}]},
        {"template": {"a": "x" * 20_000}, "tasks": [{}]},
    ],
)
def test_a_base_that_cannot_be_merged_stays(spec: dict[str, Any]) -> None:
    assert with_base(spec) is spec
    assert base_patch({"spec": spec}) == []


def test_a_base_that_was_not_merged_is_refused_with_the_reason() -> None:
    (error,) = validate_job(job(template=BASE))
    assert (error.path, error.message) == ("spec.template", NOT_MERGED)
