"""Which fields of a job may change, by the webhook and by the policy; the library says the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import pytest

from di_api.base_template import BASE
from di_api.defaults import with_defaults
from di_api.names import API_VERSION, KIND
from di_api.phase import Phase
from di_api.spec.bounds import MAX_SPEC_BYTES
from di_api.spec.weight import weigh
from di_api.validation import validate_update
from di_kube.config import KubeConfig
from di_kube.errors import Invalid
from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient
from di_kube.wire import JSON_PATCH
from tests.integration.admitting import admitting, policing
from tests.integration.conftest import ApiServer, definition, fresh_namespace
from tests.integration.webhook_process import webhook_process

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
    "artifacts": [{"name": "a", "path": "/a", "volume": "data"}],
    "code": {"configMap": "a", "sha256": "0" * 64, "path": "/code"},
    "failurePolicy": {"rules": [{"tasks": ["learner"], "action": "RestartTask"}]},
    "activeDeadlineSeconds": 100,
    "pendingTimeoutSeconds": 100,
    "progressPolicy": {"timeoutSeconds": 100},
    "idlePolicy": {"waitingShare": 80},
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
    "artifacts": ([{"name": "b", "path": "/a", "volume": "data"}], [], None),
    "code": (
        {
            "configMap": "b",
            "sha256": "1" * 64,
            "path": "/code",
            "requirements": "a.txt",
            "revision": "b",
        },
        {"configMap": "a", "sha256": "0" * 64, "path": "/other"},
        None,
    ),
    "failurePolicy": ({"replicaBackoffLimit": 3}, {"rules": [{"avoidNode": True}]}, None),
    "suspend": (True,),
    "managedBy": ("other.example.org/controller",),
    "restartedAt": ("b", None),
    "activeDeadlineSeconds": (200, None),
    "pendingTimeoutSeconds": (200, None),
    "progressPolicy": ({"timeoutSeconds": 200}, {"timeoutSeconds": 100, "action": "FailJob"}, None),
    "idlePolicy": (
        {"waitingShare": 90},
        {"waitingShare": 80, "action": "Suspend"},
        {"waitingShare": 80, "action": "ScaleDown"},
        None,
    ),
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
    "onCompletion": ("FailJob", "CompleteJob"),
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
# The schema does not know what is in them; no rule of the policy compares them, but the webhook.
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
    near = {"tasks": ["learner"], "required": "example.com/rack", "colocate": "Task"}
    placed: Object = {**MANY, "scheduling": {"topology": [near]}}
    for what, constraints in (
        ("one less", []),
        ("one more", [near, {**near, "tasks": ["buffer"]}]),
        ("of other tasks", [{**near, "tasks": ["buffer"]}]),
        ("another colocate", [{**near, "colocate": "Replica"}]),
        ("another required", [{**near, "required": "example.com/zone"}]),
        ("preferred", [changed({**near, "preferred": near["required"]}, "required", None)]),
    ):
        after = {**placed, "scheduling": {"topology": constraints}}
        yield f"topology: {what}", placed, after
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
    # A stored job has no base of templates: a change of it is one of the templates of its tasks.
    assert {*SPEC_CHANGES, "tasks", "coordinated", BASE} == set(SPEC)
    assert set(TASK_CHANGES) == set(TASK)
    assert set(COORDINATED_CHANGES | UNSEEN) == set(COORDINATED)


@dataclass(frozen=True, slots=True)
class Place:
    """A namespace with jobs to be changed, and who judges their changes."""

    kube: SyncKubeClient
    namespace: str
    judge: str
    jobs: dict[str, Object]


@pytest.fixture(scope="module", params=["policy", "webhook"])
def place(
    request: pytest.FixtureRequest,
    api_server: ApiServer,
    kube_config: KubeConfig,
    crd: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Place]:
    assert crd
    judge = request.param
    with (
        fresh_namespace(kube_config) as namespace,
        SyncKubeClient(config=kube_config, timeout=60) as kube,
        ExitStack() as judges,
    ):
        # As jobs that were made while no one judged them.
        jobs = {name: create(kube, namespace, name, spec) for name, spec in JOBS.items()}
        for name, phase in PHASES.items():
            status = {"status": {"phase": phase}}
            kube.patch(DIJOBS, name, status, namespace, subresource="status")
        if judge == "policy":
            judges.enter_context(policing(kube_config, namespace))
        else:
            folder = tmp_path_factory.mktemp("webhook")
            webhook = judges.enter_context(webhook_process(folder, api_server.host_address))
            judges.enter_context(admitting(webhook, kube_config, namespace))
        yield Place(kube, namespace, judge, jobs)


def create(kube: SyncKubeClient, namespace: str, name: str, spec: Object) -> Object:
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
    return kube.create(DIJOBS, body, namespace)


def refused(place: Place, name: str, spec: Object) -> str:
    """The message that refuses another spec of the job; empty if the change is made."""
    patch = [{"op": "replace", "path": "/spec", "value": spec}]
    try:
        place.kube.patch(DIJOBS, name, patch, place.namespace, content_type=JSON_PATCH)
    except Invalid as error:
        return error.message
    return ""


@pytest.mark.proves(
    "dijob.md#what-may-change/while-the-job-exists",
    "dijob.md#without-the-webhook/fields-that-may-not-change-and-all",
)
@pytest.mark.parametrize("what", CASES)
def test_a_change_is_judged_as_by_the_library(place: Place, what: str) -> None:
    name = NAMES_OF_JOBS[what]
    after = CASES[what][1]
    errors = validate_update(place.jobs[name], {**place.jobs[name], "spec": after})
    message = refused(place, name, after)
    unseen = what.partition(" ")[0].removeprefix("coordinated.") in UNSEEN | UNSEEN_IN_TASKS
    if unseen and place.judge == "policy":
        assert errors
        assert message == ""
    elif errors:
        assert "may not" in message
        # No deeper: the policy compares what is fixed as a whole.
        assert any(_field(error.path) in message for error in errors)
    else:
        assert message == ""


def _field(path: str) -> str:
    """The field of the spec that a path leads into."""
    return ".".join(path.partition("[")[0].split(".")[:2])


OF_ONE_TASK = {
    f"a task's {name} to {value}": name
    for name, values in TASK_CHANGES.items()
    for value in values
    if name not in ("name", "type")
}


@pytest.mark.parametrize("what", OF_ONE_TASK)
def test_a_refused_change_of_a_task_names_it_by_index_and_name(place: Place, what: str) -> None:
    name = NAMES_OF_JOBS[what]
    message = refused(place, name, CASES[what][1])
    if message:
        assert "spec.tasks[1]" in message
        assert '(task "buffer")' in message
        assert OF_ONE_TASK[what] in message


LED: Object = {
    "tasks": [
        {
            "type": "learner",
            "podsPerReplica": 2,
            "leaderTemplatePatch": {},
            "template": template(),
        }
    ]
}
WAITS: Object = {"type": "Pending", "status": "True", "reason": "a", "message": "a"}
RAN = {**WAITS, "type": "Running", "status": "False"}
STATUSES: dict[str, Object] = {
    "no status": {},
    "pending": {"phase": "Pending", "conditions": [WAITS]},
    "suspended after it ran": {"phase": "Pending", "conditions": [WAITS, RAN]},
    "running": {"phase": "Running"},
    "failed": {"phase": "Failed", "conditions": [{**WAITS, "type": "Failed"}]},
}


@pytest.mark.proves(
    "dijob.md#what-may-change/while-it-is-suspended-and-has-never",
    "dijob.md#what-may-change/while-the-job-exists",
)
@pytest.mark.parametrize("suspend", [True, False])
@pytest.mark.parametrize("what", STATUSES)
def test_templates_of_a_job_that_has_never_started_may_be_corrected(
    place: Place, what: str, suspend: bool
) -> None:
    kube, namespace = place.kube, place.namespace
    name = f"{what.replace(' ', '-')}-{'suspended' if suspend else 'active'}"
    old = create(kube, namespace, name, {**LED, "suspend": suspend})
    old = kube.patch(DIJOBS, name, {"status": STATUSES[what]}, namespace, subresource="status")
    is_open = suspend and what in ("no status", "pending")
    for field, value in (("template", template("other")), ("leaderTemplatePatch", None)):
        (task,) = old["spec"]["tasks"]
        after = {**old["spec"], "tasks": [changed(task, field, value)]}
        errors = validate_update(old, {**old, "spec": after})
        message = refused(place, name, after)
        assert (message == "") == (errors == []) == is_open, (field, message)
        if not is_open and what != "failed":
            assert f"spec.tasks[0]{'.' + field if place.judge == 'webhook' else ''}" in message
            assert field in message
            assert "suspend it first" in message or what not in ("no status", "pending")
        if is_open:
            old = kube.get(DIJOBS, name, namespace)
    # What is made of its tasks beside pods is fixed from the first.
    fixed = {**old["spec"], "tasks": [changed(old["spec"]["tasks"][0], "podsPerReplica", 3)]}
    assert "may not change" in refused(place, name, fixed)


MAY_CHANGE = {
    what: specs
    for what, specs in CASES.items()
    if not validate_update(*({"metadata": {"name": "job"}, "spec": spec} for spec in specs))
}


FINISHED = [phase.value for phase in Phase if phase.is_finished]
FILLED_IN = "a task's name to its type"
# The mutating webhook keeps the limit that a job has had.
PUT_BACK = "a task's backoffLimit to None"


def large() -> Object:
    """The spec of most tasks, and almost as many bytes as one may have."""
    environment = [{"name": f"V{number}", "value": "x" * 20} for number in range(90)]
    container = {"name": "di-container", "image": "busybox", "env": environment}
    task = {"type": "none", "template": {"spec": {"containers": [container]}}}
    return {"tasks": [{**task, "name": f"task-{n}", "replicas": 1} for n in range(64)]}


def _jobs() -> Iterator[tuple[str, Object]]:
    """Names and specs of all jobs that the tests change."""
    for what, (before, _) in CASES.items():
        yield NAMES_OF_JOBS[what], before
        if what in MAY_CHANGE:
            yield from ((f"{NAMES_OF_JOBS[what]}-{phase.lower()}", before) for phase in FINISHED)
    yield "largest", large()


JOBS = dict(_jobs())
PHASES = {name: phase for name in JOBS for phase in FINISHED if name.endswith(f"-{phase.lower()}")}


@pytest.mark.parametrize("what", [w for w in MAY_CHANGE if w != FILLED_IN])
@pytest.mark.parametrize("phase", FINISHED)
def test_once_it_has_finished_nothing_changes(place: Place, what: str, phase: str) -> None:
    name = f"{NAMES_OF_JOBS[what]}-{phase.lower()}"
    message = refused(place, name, MAY_CHANGE[what][1])
    if place.judge == "webhook" and what == PUT_BACK:
        kept = place.kube.get(DIJOBS, name, place.namespace)["spec"]
        assert with_defaults(kept) == with_defaults(place.jobs[name]["spec"])
    else:
        assert "spec: " in message or "spec." in message
        assert "may not change, the job has finished" in message
    # Its metadata and status can still be written.
    kube, namespace = place.kube, place.namespace
    kube.patch(DIJOBS, name, {"metadata": {"labels": {"a": "b"}}}, namespace)
    kube.patch(DIJOBS, name, {"status": {"restarts": 1}}, namespace, subresource="status")


def test_the_webhook_may_fill_in_a_name_although_the_job_has_finished(place: Place) -> None:
    name = f"{NAMES_OF_JOBS[FILLED_IN]}-failed"
    assert refused(place, name, MAY_CHANGE[FILLED_IN][1]) == ""


def test_the_largest_job_can_be_scaled(place: Place) -> None:
    # The API server bounds what the rules may cost when they run, too.
    scaled = large()
    assert weigh(scaled).size > MAX_SPEC_BYTES * 3 // 4
    scaled["tasks"][63]["replicas"] = 2
    assert refused(place, "largest", scaled) == ""
