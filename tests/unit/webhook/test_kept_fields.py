"""What tasks keep of fields that a change leaves out, and who owns them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_webhook.admission import mutate
from di_webhook.ownership import without_tasks
from tests.unit.webhook.reviews import job, patch_of, review

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
FILE = {"type": "learner", "template": job()["spec"]["tasks"][0]["template"]}


def kept(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """What a mutating review of a change adds to the first task."""
    patch = patch_of(mutate(review(new, old=old, operation="UPDATE")))
    prefix = "/spec/tasks/0/"
    found = {each["path"]: each["value"] for each in patch if each["path"].startswith(prefix)}
    return {path.removeprefix(prefix): value for path, value in found.items()}


def written(task: dict[str, Any], file: dict[str, Any] | None = None) -> dict[str, Any]:
    """A job of one task, with the annotation of a file that was applied client-side."""
    body = job(tasks=[task])
    body["metadata"]["uid"] = "u"
    if file is not None:
        text = json.dumps({"spec": {"tasks": [file]}})
        body["metadata"]["annotations"] = {LAST_APPLIED: text}
    return body


@pytest.mark.parametrize(
    ("bounds", "replicas"),
    [({}, 5), ({"maxReplicas": 3}, 3), ({"minReplicas": 7, "maxReplicas": 9}, 7)],
)
@pytest.mark.proves("jobs-in-git.md#what-a-file-leaves-alone/replicas-of-a-task")
def test_replicas_stay_as_near_as_the_bounds_allow(bounds: dict[str, int], replicas: int) -> None:
    file = FILE | bounds
    old = written({**file, "name": "learner", "replicas": 5}, FILE)
    assert kept(written(file, file), old)["replicas"] == replicas


def test_a_bound_that_the_file_never_had_stays() -> None:
    old = written({**FILE, "name": "learner", "replicas": 1, "maxReplicas": 4}, FILE)
    assert kept(written(FILE, FILE), old)["maxReplicas"] == 4


def test_a_bound_that_an_edit_leaves_out_goes() -> None:
    full = {**FILE, "name": "learner", "replicas": 1}
    old = written({**full, "maxReplicas": 4}, FILE)
    assert kept(written(full, FILE), old) == {}
    assert kept(written(full), old) == {}


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"spec": {"tasks": [1, {"type": []}]}}', "[" * 999]
)
def test_an_annotation_of_any_text_keeps_replicas(text: str) -> None:
    new, old = written(FILE), written({**FILE, "name": "learner", "replicas": 5})
    new["metadata"]["annotations"] = old["metadata"]["annotations"] = {LAST_APPLIED: text}
    assert kept(new, old)["replicas"] == 5


def entry(manager: str, **fields: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": "Apply", "fieldsV1": fields}


@pytest.mark.proves("jobs-in-git.md#applied-by-two")
def test_no_manager_owns_the_tasks() -> None:
    tasks: dict[str, Any] = {"f:tasks": {}}
    body = job()
    body["metadata"]["managedFields"] = [
        entry("flux", **{"f:spec": {**tasks, "f:priority": {}}}),
        entry("argo", **{"f:spec": tasks, "f:metadata": {}}),
        entry("kubectl", **{"f:spec": tasks}),
        "odd",
    ]
    assert without_tasks(body) == [
        entry("flux", **{"f:spec": {"f:priority": {}}}),
        entry("argo", **{"f:metadata": {}}),
        "odd",
    ]
    # An object without any entry is owned by a manager before all others.
    body["metadata"]["managedFields"] = [entry("kubectl", **{"f:spec": tasks})]
    assert [each["manager"] for each in without_tasks(body) or ()] == ["di-webhook"]
    managed = {"op": "add", "path": "/metadata/managedFields", "value": without_tasks(body)}
    assert managed in patch_of(mutate(review(body)))
    body["metadata"]["managedFields"] = without_tasks(body)
    assert without_tasks(body) is None


def test_what_is_no_task_keeps_nothing() -> None:
    """As the mutating webhook gets it, before the API server looks at types."""
    old = job(tasks=[{"replicas": 5}])
    odd: list[list[Any]] = [["learner"], [None], [["learner"]], [{}], [{"name": ""}]]
    for tasks in odd:
        patch = patch_of(mutate(review(job(tasks=tasks), old=old, operation="UPDATE")))
        assert 5 not in [each["value"] for each in patch]
