"""The last name, and the last number, that a rule of several fields still takes."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.validation.names import name_errors, node_list_errors
from di_api.validation.task.process_group import wrong_process_group


def spec(name: Any, **fields: Any) -> dict[str, Any]:
    return {"tasks": [{"name": name, "replicas": 1, **fields}]}


@pytest.mark.parametrize(
    ("task", "job", "fields"),
    [
        # `<job>-<task>-0` may have 63 characters.
        ("t" * 59, "a", []),
        ("t" * 59, "ab", ["metadata.name"]),
        ("t" * 60, "a", ["spec.tasks[0].name"]),
    ],
)
def test_a_task_name_has_to_leave_one_character_to_the_job(
    task: str, job: str, fields: list[str]
) -> None:
    assert [error.path for error in name_errors({"name": job}, spec(task))] == fields


def test_a_task_whose_name_is_no_text_says_nothing_about_the_job() -> None:
    """The schema refuses it."""
    assert not [*name_errors({"name": "1a"}, spec(7, service={}))]
    assert [*name_errors({"name": "1a"}, spec("work", service={}))]


def test_a_generated_name_has_five_more_characters_in_node_lists() -> None:
    tasks = spec("t" * 40, replicas=3000)
    (generated,) = node_list_errors({"generateName": "a" * 10}, tasks)
    (named,) = node_list_errors({"name": "a" * 15}, tasks)
    assert generated.message == named.message


@pytest.mark.parametrize(
    ("last_call", "deadline", "is_wrong"),
    [
        (61, 60, True),
        (60, 60, False),
        (2**63 - 1, 60, True),
        (60, 1 - 2**63, True),
        # The schema refuses what is no number of 64 bits.
        (2**63, 60, False),
        (60, -(2**63), False),
        ("61", 60, False),
    ],
)
def test_the_last_call_of_a_group_ends_before_its_deadline(
    last_call: Any, deadline: int, is_wrong: bool
) -> None:
    group = {"lastCallSeconds": last_call, "deadlineSeconds": deadline}
    assert bool([*wrong_process_group("", {"processGroup": group})]) is is_wrong
