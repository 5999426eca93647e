"""The pod of a replica: a whole one as written down, then what a user's template may do to it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from di_api.spec import Task, TaskType
from di_operator.builders.access import Access
from di_operator.builders.nodes import NodeLists
from di_operator.builders.pinning import Binding, node_of
from di_operator.builders.pod import PodFrame, pod_body

JOB = {"metadata": {"name": "x", "namespace": "rl", "uid": "uid-x"}}
NODES = NodeLists(
    by_rank=("x-learner-0.di-x.rl.svc", "x-env-a-0.di-x.rl.svc"),
    by_task={"learner": ("x-learner-0.di-x.rl.svc",), "env-a": ("x-env-a-0.di-x.rl.svc",)},
)
OWN_ENV = (
    "DI_JOB_ID",
    "DI_SERVER_URL",
    "DI_RANK",
    "DI_TASK_NAME",
    "DI_TASK_TYPE",
    "DI_TASK_RANK",
    "DI_NODES",
    "DI_LEARNER_NODES",
    "DI_ENV_A_NODES",
)


def build(template: dict[str, Any], *, node: str = "", **frame: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "job": JOB,
        "replicas": {"learner": 1, "env-a": 1},
        "volumes": (),
        "nodes": NODES,
        "by_file": False,
        "access": Access(),
        "server_url": "http://di-server.di-system.svc.cluster.local:8081",
    }
    before = copy.deepcopy(template)
    env_task = Task(name="env-a", type=TaskType.NONE, replicas=1, template=template)
    body = pod_body(PodFrame(**settings | frame), task=env_task, index=0, rank=1, node=node)
    assert template == before, "the template belongs to the cache"
    return body


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "di-container", "image": "train:1", **fields}


def first(body: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = body["spec"]["containers"][0]
    return result


@pytest.mark.parametrize(("node", "told"), [("n1", "fast"), ("n2", None), ("", None)])
def test_a_pod_gets_its_node_type_if_it_is_known(node: str, told: str | None) -> None:
    kinds = {"n1": "fast", "n3": "slow"}
    body = build({"spec": {"containers": [container()]}}, node=node, kinds=kinds)
    env = {variable["name"]: variable["value"] for variable in first(body)["env"]}
    assert env.get("DI_NODE_KIND") == told


@pytest.mark.parametrize(("restarts", "told"), [(0, None), (2, "2")])
def test_a_pod_gets_the_count_of_earlier_restarts(restarts: int, told: str | None) -> None:
    body = build({"spec": {"containers": [container()]}}, restarts=restarts)
    env = {variable["name"]: variable["value"] for variable in first(body)["env"]}
    assert env.get("DI_RESTARTS") == told


def test_the_pod_of_a_plain_template() -> None:
    assert build({"spec": {"containers": [container()]}}) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "x-env-a-0",
            "namespace": "rl",
            "labels": {
                "diengine/job": "x",
                "diengine/operator": "di-operator",
                "diengine/pod": "x-env-a-0",
                "diengine/task-type": "none",
                "diengine/task-name": "env-a",
            },
            "annotations": {
                "diengine/replicas": "2",
                "diengine/task-replicas": "1",
                "diengine/rank": "1",
                "diengine/task-rank": "0",
                "diengine/node": "",
            },
            "ownerReferences": [
                {
                    "apiVersion": "diengine.opendilab.org/v2alpha1",
                    "kind": "DIJob",
                    "name": "x",
                    "uid": "uid-x",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "hostname": "x-env-a-0",
            "subdomain": "di-x",
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "di-container",
                    "image": "train:1",
                    "env": [
                        {"name": "DI_JOB_ID", "value": "rl/x"},
                        {
                            "name": "DI_SERVER_URL",
                            "value": "http://di-server.di-system.svc.cluster.local:8081",
                        },
                        {"name": "DI_RANK", "value": "1"},
                        {"name": "DI_TASK_NAME", "value": "env-a"},
                        {"name": "DI_TASK_TYPE", "value": "none"},
                        {"name": "DI_TASK_RANK", "value": "0"},
                        {
                            "name": "DI_NODES",
                            "value": "x-learner-0.di-x.rl.svc,x-env-a-0.di-x.rl.svc",
                        },
                        {"name": "DI_LEARNER_NODES", "value": "x-learner-0.di-x.rl.svc"},
                        {"name": "DI_ENV_A_NODES", "value": "x-env-a-0.di-x.rl.svc"},
                    ],
                    "ports": [{"name": "di-port", "containerPort": 22270, "protocol": "TCP"}],
                }
            ],
        },
    }


def test_the_templates_metadata_does_not_override_ours() -> None:
    metadata = {
        "labels": {"team": "rl", "diengine/job": "other"},
        "annotations": {"note": "hi", "diengine/rank": "9"},
        "name": "ignored",
    }
    body = build({"metadata": metadata, "spec": {"containers": [container()]}})

    assert body["metadata"]["labels"]["team"] == "rl"
    assert body["metadata"]["labels"]["diengine/job"] == "x"
    assert body["metadata"]["annotations"]["note"] == "hi"
    assert body["metadata"]["annotations"]["diengine/rank"] == "1"
    assert body["metadata"]["name"] == "x-env-a-0"


def test_the_template_is_kept_except_its_restart_policy() -> None:
    spec = {
        "containers": [container()],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 90,
        "nodeSelector": {"gpu": "yes"},
    }
    body = build({"spec": spec})

    assert body["spec"]["restartPolicy"] == "Never"
    assert body["spec"]["terminationGracePeriodSeconds"] == 90
    assert body["spec"]["nodeSelector"] == {"gpu": "yes"}


def test_every_container_and_init_container_gets_the_variables() -> None:
    spec = {
        "containers": [container(), {"name": "sidecar", "image": "log:1"}],
        "initContainers": [{"name": "prepare", "image": "init:1"}],
    }
    body = build({"spec": spec})

    for each in (*body["spec"]["containers"], *body["spec"]["initContainers"]):
        assert tuple(variable["name"] for variable in each["env"]) == OWN_ENV


def test_a_users_own_variable_wins_and_may_refer_to_ours() -> None:
    theirs = [{"name": "DI_RANK", "value": "7"}, {"name": "WHO", "value": "$(DI_TASK_RANK)"}]
    env = first(build({"spec": {"containers": [container(env=theirs)]}}))["env"]
    names = [variable["name"] for variable in env]

    assert [v for v in env if v["name"] == "DI_RANK"] == [{"name": "DI_RANK", "value": "7"}]
    assert names.index("DI_TASK_RANK") < names.index("WHO")


def test_volumes_of_the_job_do_not_replace_the_templates() -> None:
    spec = {"containers": [container()], "volumes": [{"name": "data", "emptyDir": {}}]}
    job_volumes = ({"name": "data", "hostPath": {"path": "/d"}}, {"name": "cache", "emptyDir": {}})
    body = build({"spec": spec}, volumes=job_volumes)

    assert body["spec"]["volumes"] == [
        {"name": "data", "emptyDir": {}},
        {"name": "cache", "emptyDir": {}},
    ]


def test_a_port_named_di_port_is_left_as_it_is() -> None:
    ports = [{"name": "di-port", "containerPort": 9000}]
    assert first(build({"spec": {"containers": [container(ports=ports)]}}))["ports"] == ports


def test_a_port_that_uses_the_number_already_is_left_as_it_is() -> None:
    ports = [{"name": "mine", "containerPort": 22270}]
    assert first(build({"spec": {"containers": [container(ports=ports)]}}))["ports"] == ports


def test_the_default_port_is_declared_on_di_container_where_there_is_one() -> None:
    spec = {"containers": [{"name": "sidecar", "image": "log:1"}, container()]}
    sidecar, main = build({"spec": spec})["spec"]["containers"]

    assert "ports" not in sidecar
    assert main["ports"][0]["containerPort"] == 22270


def test_the_default_port_is_declared_on_the_first_container_otherwise() -> None:
    spec = {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}
    a, b = build({"spec": spec})["spec"]["containers"]

    assert a["ports"][0]["name"] == "di-port"
    assert "ports" not in b


def test_with_an_audience_every_container_finds_a_token_for_the_server() -> None:
    spec = {
        "containers": [container(volumeMounts=[{"name": "data", "mountPath": "/data"}])],
        "initContainers": [{"name": "prepare", "image": "init:1"}],
    }
    body = build({"spec": spec}, access=Access(token_audience="di-server"))

    assert body["spec"]["volumes"] == [
        {
            "name": "di-server-token",
            "projected": {
                "sources": [
                    {
                        "serviceAccountToken": {
                            "audience": "di-server",
                            "expirationSeconds": 3600,
                            "path": "token",
                        }
                    }
                ]
            },
        }
    ]
    mount = {"name": "di-server-token", "mountPath": "/var/run/secrets/di-server", "readOnly": True}
    token = {"name": "DI_SERVER_TOKEN_FILE", "value": "/var/run/secrets/di-server/token"}
    for each in (*body["spec"]["containers"], *body["spec"]["initContainers"]):
        assert mount in each["volumeMounts"]
        assert token in each["env"]
    assert first(body)["volumeMounts"][0]["mountPath"] == "/data"


def test_the_servers_authorities_are_a_file_from_the_annotation() -> None:
    spec = {"containers": [container()], "initContainers": [{"name": "prepare", "image": "init:1"}]}
    access = Access(token_audience="di-server", server_ca="-----BEGIN CERTIFICATE-----")
    body = build({"spec": spec}, access=access)

    assert body["metadata"]["annotations"]["diengine/server-ca"] == "-----BEGIN CERTIFICATE-----"
    (volume,) = body["spec"]["volumes"]
    token, authorities = volume["projected"]["sources"]
    assert "serviceAccountToken" in token
    field = {"fieldPath": "metadata.annotations['diengine/server-ca']"}
    assert authorities == {"downwardAPI": {"items": [{"path": "ca.crt", "fieldRef": field}]}}
    file = {"name": "DI_SERVER_CA_FILE", "value": "/var/run/secrets/di-server/ca.crt"}
    for each in (*body["spec"]["containers"], *body["spec"]["initContainers"]):
        assert file in each["env"]
        assert [mount["mountPath"] for mount in each["volumeMounts"]] == [
            "/var/run/secrets/di-server"
        ]


def test_authorities_that_are_not_known_yet_have_their_place() -> None:
    body = build({"spec": {"containers": [container()]}}, access=Access(server_ca=""))
    assert body["metadata"]["annotations"]["diengine/server-ca"] == ""
    (volume,) = body["spec"]["volumes"]
    assert [list(source) for source in volume["projected"]["sources"]] == [["downwardAPI"]]


def test_the_users_own_file_of_authorities_wins() -> None:
    own = {"name": "DI_SERVER_CA_FILE", "value": "/etc/ssl/own.pem"}
    spec = {"containers": [container(env=[own])]}
    body = build({"spec": spec}, access=Access(server_ca="x"))
    found = [each for each in first(body)["env"] if each["name"] == "DI_SERVER_CA_FILE"]
    assert found == [own]


def test_a_node_chosen_by_the_allocator_is_pinned_and_written_down() -> None:
    body = build({"spec": {"containers": [container()], "schedulerName": "other"}}, node="node-7")

    assert (node_of(body["spec"]), body["spec"]["schedulerName"]) == ("node-7", "other")
    assert "nodeName" not in body["spec"]
    assert body["metadata"]["annotations"]["diengine/node"] == "node-7"


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ({}, {"priorityClassName": "high"}),
        ({"priorityClassName": ""}, {"priorityClassName": "high"}),
        ({"priorityClassName": "own"}, {"priorityClassName": "own"}),
        ({"priority": 0}, {"priority": 0}),
    ],
    ids=["none", "an empty one", "a class", "a number"],
)
def test_the_priority_of_the_template_wins(own: dict[str, Any], found: dict[str, Any]) -> None:
    template = {"spec": {"containers": [container()], **own}}
    body = build(template, priority_class="high")["spec"]
    assert {key: body[key] for key in ("priority", "priorityClassName") if key in body} == found
    assert build({"spec": {"containers": [container()]}})["spec"].get("priorityClassName") is None


def test_with_direct_binding_no_scheduler_is_asked() -> None:
    body = build({"spec": {"containers": [container()]}}, node="node-7", binding=Binding.DIRECT)

    assert body["spec"]["nodeName"] == "node-7"
    assert "affinity" not in body["spec"]
