"""Which fields of a job may change, as the CRD alone says; the library says the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

from di_api.kube.config import KubeConfig
from di_api.kube.errors import Invalid
from di_api.kube.resources import DIJOBS
from di_api.kube.sync import SyncKubeClient
from di_api.kube.wire import JSON_PATCH
from di_api.names import API_VERSION, KIND
from di_api.phase import Phase
from di_api.validation import validate_update
from tests.integration.conftest import definition, fresh_namespace

Object = dict[str, Any]

VERSION = definition()["spec"]["versions"][0]
SPEC = VERSION["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
TASK = SPEC["tasks"]["items"]["properties"]
COORDINATED = SPEC["coordinated"]["properties"]


def template(image: str = "busybox") -> Object:
    return {"spec": {"containers": [{"name": "di-container", "image": image}]}}


def settings(value: str, suffix: str = "") -> Object:
    """A companion."""
    name = f"$(JOB){suffix}"
    about: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return {**about, "data": {"value": value}}


MANY: Object = {
    "group": "a",
    "restartedAt": "a",
    "volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
    "companions": [settings("1")],
    "scheduling": {"gang": False},
    "successPolicy": {"tasks": ["learner"]},
    "checkpoint": {"volume": "data"},
    "failurePolicy": {"rules": [{"tasks": ["learner"], "action": "RestartTask"}]},
    "activeDeadlineSeconds": 100,
    "pendingTimeoutSeconds": 100,
    "progressPolicy": {"timeoutSeconds": 100},
    "ttlSecondsAfterFinished": 100,
    "tasks": [
        {
            "type": "learner",
            "replicas": 2,
            "minReplicas": 1,
            "maxReplicas": 9,
            "template": template(),
        },
        {
            "type": "none",
            "name": "buffer",
            "podsPerReplica": 2,
            "leaderTemplatePatch": {},
            "backoffLimit": 2,
            "dependsOn": ["learner"],
            "activeDeadlineSeconds": 100,
            "restartedAt": "a",
            "maxUnavailable": 1,
            "processGroup": {"framework": "torch"},
            "nodeCheck": {},
            "service": {"ports": [{"name": "http", "port": 80}]},
            "replicas": 2,
            "minReplicas": 1,
            "maxReplicas": 5,
            "elastic": {"priorityClassName": "spot", "templatePatch": {}},
            "drain": {"path": "/drain", "port": "rpc"},
            "ports": [{"name": "rpc"}],
            "template": template(),
        },
    ],
}
LABELLED: Object = {"metadata": {"labels": {"a": "b"}}}
# What every field is changed to; None takes it away.
SPEC_CHANGES: dict[str, tuple[object, ...]] = {
    "priority": ("high",),
    "cleanPodPolicy": ("All",),
    "preemptible": (True,),
    "scheduling": ({"gang": True}, None),
    "backoffLimit": (7,),
    "group": ("b", None),
    "volumes": ([{"name": "data", "hostPath": {"path": "/"}}], [], None),
    "companions": ([settings("2")], [settings("1"), settings("1", "-b")], [], None),
    "successPolicy": ({"tasks": ["buffer"]}, {"tasks": ["learner"], "operator": "Any"}, None),
    "checkpoint": ({"persistentVolumeClaim": "a"}, {"volume": "data", "path": "/a"}, None),
    "failurePolicy": ({"replicaBackoffLimit": 3}, {"rules": [{"avoidNode": True}]}, None),
    "suspend": (True,),
    "managedBy": ("other.example.org/controller",),
    "restartedAt": ("b", None),
    "activeDeadlineSeconds": (200, None),
    "pendingTimeoutSeconds": (200, None),
    "progressPolicy": ({"timeoutSeconds": 200}, {"timeoutSeconds": 100, "action": "FailJob"}, None),
    "ttlSecondsAfterFinished": (200, None),
}
TASK_CHANGES: dict[str, tuple[object, ...]] = {
    "name": ("other",),
    "type": ("learner",),
    "replicas": (3,),
    "minReplicas": (2,),
    "maxReplicas": (4,),
    "maxUnavailable": (2, None),
    "scalable": (True,),
    # Alone it would be a patch that needs several pods.
    "podsPerReplica": (3,),
    "leaderTemplatePatch": (None,),
    # More would not go with the rest.
    "standby": (0,),
    "backoffLimit": ("Unlimited", 0, None),
    "dependsOn": ([], None),
    "processGroup": ({"framework": "jax"}, {"framework": "torch", "lastCallSeconds": 1}, None),
    "nodeCheck": ({"command": ["a"]}, {"action": "Notify"}, None),
    "service": (
        {"ports": [{"name": "http", "port": 81}]},
        {"ports": [{"name": "http", "port": 80}], "select": "Leaders"},
        None,
    ),
    "elastic": (
        {"priorityClassName": "other", "templatePatch": {}},
        {"priorityClassName": "spot", "templatePatch": LABELLED},
        None,
    ),
    "vacant": ([1],),
    "drain": ({"path": "/drain", "port": 80}, {"command": ["a"]}, None),
    "ports": ([{"name": "other"}], [{"name": "rpc", "scope": "Job"}], [], None),
    "activeDeadlineSeconds": (200, None),
    "restartedAt": ("b", None),
    "template": (template("other"), {"metadata": {"labels": {"a": "b"}}, **template()}),
}
ROLES: Object = {
    "priorityClassName": "a",
    **{role: {"template": template()} for role in ("coordinator", "collector", "learner")},
    "replicas": [],
}
COORDINATED_CHANGES: dict[str, tuple[object, ...]] = {
    "priorityClassName": ("b", None),
    "collector": (None,),
    "learner": (None,),
    "replicas": ([{"name": "one", "role": "collector"}],),
}
# Of what the schema does not know its rules cannot see the change: the webhook alone refuses it.
UNSEEN = {"coordinator": ({"template": template("other")},)}
UNSEEN_IN_TASKS = {"leaderTemplatePatch": (LABELLED,)}


def changed(fields: Mapping[str, Any], name: str, value: object) -> Object:
    """A copy with one field set, or gone."""
    result = deepcopy({**fields, name: value})
    if value is None:
        del result[name]
    return result


def _cases() -> Iterator[tuple[str, Object, Object]]:
    """What is changed, and the specs before and after."""
    for name, values in SPEC_CHANGES.items():
        for value in values:
            yield f"{name} to {value}", MANY, changed(MANY, name, value)
    first, second = MANY["tasks"]
    for name, values in TASK_CHANGES.items():
        for value in values:
            tasks = [first, changed(second, name, value)]
            if value == "learner":
                tasks = [changed(first, "type", "collector"), second]
            yield f"a task's {name} to {value}", MANY, {**MANY, "tasks": tasks}
    for name, values in UNSEEN_IN_TASKS.items():
        for value in values:
            tasks = [first, changed(second, name, value)]
            yield f"{name} to {value}", MANY, {**MANY, "tasks": tasks}
    named = [{"name": "learner", **first}, second]
    yield "a task's name to its type", MANY, {**MANY, "tasks": named}
    yield "the order of tasks", MANY, {**MANY, "tasks": [second, first]}
    yield "one task less", MANY, {**MANY, "tasks": [first]}
    yield "one task more", MANY, {**MANY, "tasks": [*MANY["tasks"], {**second, "name": "more"}]}
    coordinated: Object = {"coordinated": ROLES}
    for name, values in (COORDINATED_CHANGES | UNSEEN).items():
        for value in values:
            after = {"coordinated": changed(ROLES, name, value)}
            yield f"coordinated.{name} to {value}", coordinated, after
    yield "tasks to coordinated", {"tasks": MANY["tasks"]}, coordinated


CASES = {name: (before, after) for name, before, after in _cases()}
NAMES_OF_JOBS = {name: f"job-{number}" for number, name in enumerate(CASES)}


def test_every_field_is_tried() -> None:
    assert {*SPEC_CHANGES, "tasks", "coordinated"} == set(SPEC)
    assert set(TASK_CHANGES) == set(TASK)
    assert set(COORDINATED_CHANGES | UNSEEN) == set(COORDINATED)


@pytest.fixture(scope="module")
def place(kube_config: KubeConfig, crd: str) -> Iterator[tuple[SyncKubeClient, str]]:
    assert crd
    with fresh_namespace(kube_config) as namespace, SyncKubeClient(config=kube_config) as kube:
        yield kube, namespace


def create(place: tuple[SyncKubeClient, str], name: str, spec: Object) -> Object:
    kube, namespace = place
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    return kube.create(DIJOBS, body, namespace)


def refused(place: tuple[SyncKubeClient, str], job: Object, spec: Object) -> str:
    """The API server's words against another spec of the job; empty if it takes it."""
    kube, namespace = place
    patch = [{"op": "replace", "path": "/spec", "value": spec}]
    try:
        kube.patch(DIJOBS, job["metadata"]["name"], patch, namespace, content_type=JSON_PATCH)
    except Invalid as error:
        return error.message
    return ""


@pytest.mark.proves("dijob.md#what-may-change/while-the-job-exists")
@pytest.mark.parametrize("what", CASES)
def test_the_crd_and_the_library_agree_on_a_change_of(
    place: tuple[SyncKubeClient, str], what: str
) -> None:
    before, after = CASES[what]
    job = create(place, NAMES_OF_JOBS[what], before)
    errors = validate_update(job, {**job, "spec": after})
    words = refused(place, job, after)
    if what.partition(" ")[0].removeprefix("coordinated.") in UNSEEN | UNSEEN_IN_TASKS:
        assert errors
        assert words == ""
    elif errors:
        assert "may not" in words
        # No deeper: what is fixed is compared as a whole.
        assert ".".join(errors[0].path.partition("[")[0].split(".")[:2]) in words
    else:
        assert words == ""


MAY_CHANGE = {
    what: specs
    for what, specs in CASES.items()
    if not validate_update(*({"metadata": {"name": "job"}, "spec": spec} for spec in specs))
}


@pytest.mark.parametrize("what", [w for w in MAY_CHANGE if w != "a task's name to its type"])
@pytest.mark.parametrize("phase", [phase.value for phase in Phase if phase.is_finished])
def test_once_it_has_finished_nothing_changes(
    place: tuple[SyncKubeClient, str], what: str, phase: str
) -> None:
    kube, namespace = place
    before, after = MAY_CHANGE[what]
    name = f"{NAMES_OF_JOBS[what]}-{phase.lower()}"
    job = create(place, name, before)
    kube.patch(DIJOBS, name, {"status": {"phase": phase}}, namespace, subresource="status")
    assert "spec: Invalid value: may not change, the job has finished" in refused(place, job, after)
    # What it is does not keep its metadata and status from being written.
    kube.patch(DIJOBS, name, {"metadata": {"labels": {"a": "b"}}}, namespace)
    kube.patch(DIJOBS, name, {"status": {"restarts": 1}}, namespace, subresource="status")


def test_the_webhook_may_fill_in_a_name_although_the_job_has_finished(
    place: tuple[SyncKubeClient, str],
) -> None:
    kube, namespace = place
    before, after = CASES["a task's name to its type"]
    job = create(place, "filled-in", before)
    status = {"status": {"phase": "Failed"}}
    kube.patch(DIJOBS, "filled-in", status, namespace, subresource="status")
    assert refused(place, job, after) == ""


def test_the_largest_job_can_be_scaled(place: tuple[SyncKubeClient, str]) -> None:
    # The API server bounds what the rules may cost when they run, too.
    environment = [{"name": f"V{number}", "value": "x" * 100} for number in range(120)]
    container = {"name": "di-container", "image": "busybox", "env": environment}
    task = {"type": "none", "template": {"spec": {"containers": [container]}}}
    spec = {"tasks": [{**task, "name": f"task-{n}", "replicas": 1} for n in range(64)]}
    job = create(place, "largest", spec)
    scaled = deepcopy(spec)
    scaled["tasks"][63]["replicas"] = 2
    assert refused(place, job, scaled) == ""
