"""The store does to objects what an API server does to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from di_kube.resources import CONFIGMAPS, DIJOBS, EVENTS, PODS
from di_local.api.admission import admit
from di_local.api.objects import Object, Objects
from di_local.api.patches import merged, patched
from di_local.api.refused import Refused
from di_local.api.selectors import selector
from tests.unit.local.machine import job, task

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def objects() -> Objects:
    return Objects(now=lambda: NOW, admit=admit)


def _configmap(**fields: Any) -> Object:
    return {"metadata": {"name": "a", "namespace": "ns", **fields}, "data": {"key": "1"}}


def _pod(name: str = "a", **metadata: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": {"containers": []}}


def _refusal(refused: pytest.ExceptionInfo[Refused]) -> tuple[int, str]:
    return refused.value.code, refused.value.reason


def test_a_name_is_taken_once(objects: Objects) -> None:
    objects.create(CONFIGMAPS, _configmap())
    with pytest.raises(Refused) as refused:
        objects.create(CONFIGMAPS, _configmap())
    assert _refusal(refused) == (409, "AlreadyExists")


def test_a_write_under_an_old_version_is_a_conflict(objects: Objects) -> None:
    made = objects.create(CONFIGMAPS, _configmap())
    objects.replace(CONFIGMAPS, "ns", "a", {**made, "data": {}})
    with pytest.raises(Refused) as refused:
        objects.replace(CONFIGMAPS, "ns", "a", made)
    assert _refusal(refused) == (409, "Conflict")


def test_a_write_without_a_change_keeps_the_version(objects: Objects) -> None:
    made = objects.create(CONFIGMAPS, _configmap())
    version = objects.version
    assert objects.replace(CONFIGMAPS, "ns", "a", made) is made
    assert objects.version == version


def test_status_and_spec_are_written_separately(objects: Objects) -> None:
    made = objects.create(DIJOBS, job(task("pass")))
    both = {**made, "status": {"phase": "Running"}, "spec": {**made["spec"], "backoffLimit": 7}}
    after = objects.replace(DIJOBS, "default", "tiny", both, status=True)
    assert after["status"] == {"phase": "Running"}
    assert after["spec"] == made["spec"]
    assert after["metadata"]["generation"] == 1
    changed = {**after, "status": {}, "spec": both["spec"]}
    after = objects.replace(DIJOBS, "default", "tiny", changed)
    assert after["status"] == {"phase": "Running"}
    assert after["metadata"]["generation"] == 2


def test_a_job_is_admitted_as_by_the_webhook(objects: Objects) -> None:
    made = objects.create(DIJOBS, job(task("pass")))
    assert made["spec"]["tasks"][0]["name"] == "learner"
    renamed = {**made["spec"], "tasks": [{**made["spec"]["tasks"][0], "name": "other"}]}
    with pytest.raises(Refused) as refused:
        objects.replace(DIJOBS, "default", "tiny", {**made, "spec": renamed})
    assert _refusal(refused) == (422, "Invalid")


def test_a_running_pod_gets_its_grace_period(objects: Objects) -> None:
    made = objects.create(PODS, _pod())
    bound = {**made, "spec": {**made["spec"], "nodeName": "here"}}
    objects.replace(PODS, "ns", "a", bound)
    left = objects.delete(PODS, "ns", "a", grace=5)
    assert left is not None
    assert left["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:10Z"
    # A longer time is no news, a shorter one is.
    assert objects.delete(PODS, "ns", "a") is left
    assert objects.delete(PODS, "ns", "a", grace=0) is None
    assert objects.list(PODS) == []


@pytest.mark.parametrize("status", [None, {"phase": "Succeeded"}])
def test_a_pod_without_processes_is_gone_at_once(objects: Objects, status: Object | None) -> None:
    made = objects.create(PODS, _pod())
    if status is not None:
        bound = {**made, "spec": {**made["spec"], "nodeName": "here"}}
        made = objects.replace(PODS, "ns", "a", bound)
        objects.replace(PODS, "ns", "a", {**made, "status": status}, status=True)
    assert objects.delete(PODS, "ns", "a") is None


def test_owned_objects_are_deleted_with_their_owner(objects: Objects) -> None:
    owner = objects.create(DIJOBS, job(task("pass")))
    reference = {"uid": owner["metadata"]["uid"]}
    objects.create(PODS, _pod("mine", ownerReferences=[reference]))
    objects.create(PODS, _pod("other", ownerReferences=[{"uid": "another"}]))
    objects.delete(DIJOBS, "default", "tiny")
    assert [pod["metadata"]["name"] for pod in objects.list(PODS)] == ["other"]


def test_a_delete_with_another_uid_is_a_conflict(objects: Objects) -> None:
    objects.create(CONFIGMAPS, _configmap())
    with pytest.raises(Refused) as refused:
        objects.delete(CONFIGMAPS, "ns", "a", uid="another")
    assert _refusal(refused) == (409, "Conflict")


def test_a_selective_watch_sees_objects_enter_and_leave(objects: Objects) -> None:
    select = selector(None, "colour=red", "")
    made = objects.create(CONFIGMAPS, _configmap(labels={"colour": "red"}))
    blue = {**made, "metadata": {**made["metadata"], "labels": {"colour": "blue"}}}
    after = objects.replace(CONFIGMAPS, "ns", "a", blue)
    objects.replace(CONFIGMAPS, "ns", "a", {**after, "data": {}})
    kinds = [seen[0] for change in objects.since(1) if (seen := change.seen(select))]
    assert kinds == ["ADDED", "DELETED"]


def test_an_old_version_has_expired(objects: Objects) -> None:
    for _ in range(10_001):
        objects.create(CONFIGMAPS, _configmap())
        objects.delete(CONFIGMAPS, "ns", "a")
    with pytest.raises(Refused) as refused:
        objects.since(1)
    assert _refusal(refused) == (410, "Expired")
    assert objects.since(objects.version) == []


def test_the_oldest_events_are_removed(objects: Objects) -> None:
    for number in range(2_001):
        objects.create(EVENTS, {"metadata": {"name": f"e{number}", "namespace": "ns"}})
    found = objects.list(EVENTS)
    assert len(found) == 2_000
    assert found[0]["metadata"]["name"] == "e1"


@pytest.mark.parametrize(
    ("labels", "fields", "is_meant"),
    [
        ("colour=red", "", True),
        ("colour!=red", "", False),
        ("size!=1", "", True),
        ("colour", "", True),
        ("size", "", False),
        ("", "metadata.name=a", True),
        ("", "metadata.name=b", False),
        ("colour=red,size=1", "", False),
    ],
)
def test_labels_and_fields_select_objects(labels: str, fields: str, is_meant: bool) -> None:
    obj = _configmap(labels={"colour": "red"})
    assert selector(None, labels, fields)(obj) is is_meant
    assert selector("ns", labels, fields)(obj) is is_meant
    assert selector("elsewhere", labels, fields)(obj) is False


@pytest.mark.parametrize("labels", ["colour in (red,blue)", "!colour"])
def test_other_forms_of_label_selectors_are_refused(labels: str) -> None:
    with pytest.raises(Refused, match="is not supported here"):
        selector(None, labels, "")


def test_merge_patches_remove_null_fields() -> None:
    before = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    assert merged(before, {"a": {"b": None, "c": [3]}, "e": {"f": None}}) == {
        "a": {"c": [3]},
        "d": 1,
        "e": {},
    }
    assert before == {"a": {"b": 1, "c": [1, 2]}, "d": 1}


def test_json_patches_test_add_replace_and_remove() -> None:
    before = {"a": [1, 3], "b/c": {"~": 1}}
    operations: list[Object] = [
        {"op": "test", "path": "/a/0", "value": 1},
        {"op": "add", "path": "/a/1", "value": 2},
        {"op": "add", "path": "/a/-", "value": 4},
        {"op": "replace", "path": "/b~1c/~0", "value": 2},
        {"op": "add", "path": "/new", "value": {}},
    ]
    assert patched(before, operations) == {"a": [1, 2, 3, 4], "b/c": {"~": 2}, "new": {}}
    assert patched(before, [{"op": "remove", "path": "/a"}]) == {"b/c": {"~": 1}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "replace", "path": "/b", "value": 2},
        {"op": "remove", "path": "/b/c"},
        {"op": "add", "path": "/a/b", "value": 2},
        {"op": "move", "path": "/b", "from": "/a"},
    ],
)
def test_a_patch_that_does_not_apply_is_refused(operation: Object) -> None:
    with pytest.raises(Refused):
        patched({"a": 1}, [operation])
