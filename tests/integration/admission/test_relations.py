"""What relates fields of a spec to each other: the policy and the library refuse the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.defaults import with_defaults
from di_api.names import API_VERSION, KIND
from di_api.spec.job import GangScheduler
from di_api.spec.process_group import Framework
from di_api.spec.progress import IdleAction, ProgressAction
from di_api.spec.task import TaskType
from di_api.validation import validate_job
from di_api.validation.relations import ones_of, whole_of
from di_api.validation.relations.of_job import (
    OF_ARTIFACTS,
    OF_CHECKPOINT,
    OF_CODE,
    OF_SPEC,
    OF_TASKS,
)
from di_api.validation.relations.of_task import OF_TASK
from di_api.validation.relations.row import Relation, Whole
from di_kube.config import KubeConfig
from di_kube.errors import Invalid
from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient
from tests.integration.admitting import policing
from tests.integration.conftest import fresh_namespace

Object = dict[str, Any]

TEMPLATE = {"spec": {"containers": [{"name": "di-container", "image": "busybox"}]}}
NAMES = ("a", "a-1", "b", *TaskType)
NUMBER = count()


def process_groups() -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries(
        {},
        optional={
            "framework": st.sampled_from([each.value for each in Framework]),
            "processesPerReplica": st.sampled_from((1, 2)),
            "elastic": st.booleans(),
            "lastCallSeconds": st.sampled_from((0, 60, 601)),
            "deadlineSeconds": st.sampled_from((1, 60)),
        },
    )


def tasks() -> st.SearchStrategy[Object]:
    """Of one that is well-formed alone, with few names and bounds, so that they meet."""
    counts = st.sampled_from((1, 2, 3, 2000, 4096))
    return st.fixed_dictionaries(
        {"type": st.sampled_from([kind.value for kind in TaskType]), "template": st.just(TEMPLATE)},
        optional={
            "name": st.sampled_from(NAMES),
            "replicas": counts,
            "minReplicas": counts,
            "maxReplicas": counts,
            "scalable": st.booleans(),
            "podsPerReplica": st.sampled_from((1, 2, 1024)),
            "leaderTemplatePatch": st.just({}),
            "elastic": st.sampled_from(({}, {"priorityClassName": "a", "templatePatch": {}})),
            "processGroup": process_groups(),
            "nodeCheck": st.sampled_from(({}, {"action": "AvoidNode"}, {"action": "Notify"})),
            "service": services(),
            "drain": drains(),
            "standby": st.sampled_from((0, 1, 64)),
            "vacant": st.sampled_from(([], [0], [1, 3])),
            "ports": st.lists(
                st.fixed_dictionaries(
                    {"name": st.sampled_from(("a", "b", "di-port"))},
                    optional={"scope": st.sampled_from(("Pod", "Job"))},
                ),
                max_size=3,
            ),
            "dependsOn": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        },
    )


def services() -> st.SearchStrategy[Object]:
    port = st.fixed_dictionaries(
        {"name": st.sampled_from("ab"), "port": st.sampled_from((1, 2))},
        optional={"protocol": st.sampled_from(("TCP", "UDP"))},
    )
    return st.fixed_dictionaries({"ports": st.lists(port, min_size=1, max_size=3)})


def drains() -> st.SearchStrategy[Object]:
    return st.fixed_dictionaries(
        {},
        optional={
            "path": st.sampled_from(("/drain", "drain", "")),
            "port": st.sampled_from((80, "http")),
            "command": st.sampled_from(([], ["drain"])),
        },
    )


def checkpoints() -> st.SearchStrategy[Object]:
    paths = ("/checkpoint", "/a/b.c/..d", "/", "a", "/a/", "/a//b", "/a:b", "/a/../b", "/.")
    return st.fixed_dictionaries(
        {},
        optional={
            "volume": st.sampled_from(("data", "other")),
            "persistentVolumeClaim": st.sampled_from(("a", "a.b-c", "", "A", "a..b", "-a", "a.")),
            "path": st.sampled_from(paths),
        },
    )


def artifacts() -> st.SearchStrategy[list[Object]]:
    paths = ("/results", "/a/b.c/..d", "/", "a", "/a//b", "/a:b", "/a/../b")
    artifact: st.SearchStrategy[Object] = st.fixed_dictionaries(
        {"name": st.sampled_from(("a", "b")), "path": st.sampled_from(paths)},
        optional={
            "volume": st.just("data"),
            "persistentVolumeClaim": st.sampled_from(("a.b-c", "", "A")),
        },
    )
    return st.lists(artifact, max_size=2)


def codes() -> st.SearchStrategy[Object]:
    paths = ("/code", "/a/b.c/..d", "/", "a", "/a/", "/a//b", "/a:b", "/a/../b", "/.")
    files = ("a.txt", "a/b", "..a", "../a", "a/..", "/a", "a/", "a:b", "", ".")
    return st.fixed_dictionaries(
        {
            "configMap": st.sampled_from(("a", "a.b-c", "", "A", "a..b")),
            "sha256": st.sampled_from(("0" * 64, "A" * 64, "0" * 63)),
        },
        optional={
            "path": st.sampled_from(paths),
            "requirements": st.sampled_from(files),
            "parts": st.just(2),
            "persistentVolumeClaim": st.sampled_from(("a.b-c", "", "A")),
        },
    )


def progress_policies() -> st.SearchStrategy[Object]:
    times = st.sampled_from((1, 2, 3))
    return st.fixed_dictionaries(
        {"timeoutSeconds": times},
        optional={
            "firstTimeoutSeconds": times,
            "action": st.sampled_from([action.value for action in ProgressAction]),
            "tasks": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        },
    )


def specs() -> st.SearchStrategy[Object]:
    coordinated = {"coordinator": {"template": TEMPLATE}, "replicas": []}
    return st.fixed_dictionaries(
        {},
        optional={
            "tasks": st.lists(tasks(), min_size=1, max_size=3),
            "coordinated": st.just(coordinated),
            "checkpoint": checkpoints(),
            "artifacts": artifacts(),
            "code": codes(),
            "preemptible": st.booleans(),
            "scheduling": st.fixed_dictionaries(
                {},
                optional={
                    "gang": st.booleans(),
                    "gangScheduler": st.sampled_from([each.value for each in GangScheduler]),
                    "queue": st.just("rl"),
                    "provisioningClassName": st.just("check-capacity.autoscaling.x-k8s.io"),
                    "topology": st.lists(
                        st.just({"tasks": [NAMES[0]], "required": "example.com/rack"}), max_size=1
                    ),
                },
            ),
            "progressPolicy": progress_policies(),
            "idlePolicy": st.fixed_dictionaries(
                {},
                optional={
                    "waitingShare": st.just(80),
                    "gpuIdleShare": st.just(95),
                    "action": st.sampled_from([action.value for action in IdleAction]),
                },
            ),
            "failurePolicy": st.sampled_from(
                (
                    {"rules": [{"action": "RestartInPlace"}]},
                    {"rules": [{"action": "RestartInPlace", "tasks": [*NAMES[:3]]}]},
                    {},
                )
            ),
        },
    )


ROWS_OF_ALL: tuple[Relation[Whole], ...] = (
    *OF_SPEC,
    *OF_TASKS,
    *OF_CHECKPOINT,
    *OF_ARTIFACTS,
    *OF_CODE,
)


@pytest.fixture(scope="module")
def place(kube_config: KubeConfig, crd: str) -> Iterator[tuple[SyncKubeClient, str]]:
    assert crd
    with (
        fresh_namespace(kube_config) as namespace,
        SyncKubeClient(config=kube_config) as kube,
        pytest.MonkeyPatch.context() as patch,
    ):
        # A spec that breaks many rules is refused at length, and the last rule counts as the first.
        patch.setattr("di_kube.errors._MAX_MESSAGE", 1 << 20)
        with policing(kube_config, namespace):
            yield kube, namespace


@given(spec=specs())
def test_the_halves_of_a_row_agree(place: tuple[SyncKubeClient, str], spec: Object) -> None:
    body = {"metadata": {"name": f"related-{next(NUMBER)}"}, "spec": spec}
    refusal = _refusal(place, body)
    whole = whole_of(with_defaults(spec))
    found = [(row.rules, row.is_all, list(row.errors(whole))) for row in ROWS_OF_ALL]
    for one in ones_of(whole):
        found.extend((row.rules, row.is_all, list(row.errors(one))) for row in OF_TASK)
    # The API server answers with the first validation that fails.
    assert refusal or not any(is_all and errors for _, is_all, errors in found)
    assert not refusal or validate_job(body)
    messages = [rule["message"] for rules, _, _ in found for rule in rules]
    assert not refusal or any(message in refusal for message in messages)


def _refusal(place: tuple[SyncKubeClient, str], job: Object) -> str:
    """The API server's message that refuses a job by the policy; empty if it takes it."""
    kube, namespace = place
    try:
        kube.create(DIJOBS, {"apiVersion": API_VERSION, "kind": KIND, **job}, namespace)
    except Invalid as error:
        return error.message
    return ""
