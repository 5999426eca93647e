"""What a user's template does to the pod of a replica; whole pods are in `tests/golden`."""

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
    "DI_JOB_UID",
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


@pytest.mark.proves("dijob.md#spec-tasks/template")
@pytest.mark.proves("dijob.md#reserved-keys")
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


@pytest.mark.proves("dijob.md#spec/volumes")
def test_volumes_of_the_job_do_not_replace_the_templates() -> None:
    spec = {"containers": [container()], "volumes": [{"name": "data", "emptyDir": {}}]}
    job_volumes = ({"name": "data", "hostPath": {"path": "/d"}}, {"name": "cache", "emptyDir": {}})
    body = build({"spec": spec}, volumes=job_volumes)

    assert body["spec"]["volumes"] == [
        {"name": "data", "emptyDir": {}},
        {"name": "cache", "emptyDir": {}},
    ]


@pytest.mark.parametrize(
    "port", [{"name": "di-port", "containerPort": 9000}, {"name": "mine", "containerPort": 22270}]
)
def test_a_port_of_the_default_name_or_number_is_left_as_it_is(port: dict[str, Any]) -> None:
    ports = [port]
    assert first(build({"spec": {"containers": [container(ports=ports)]}}))["ports"] == ports


@pytest.mark.parametrize(("names", "index"), [(("a", "di-container"), 1), (("a", "b"), 0)])
def test_the_default_port_is_on_di_container_or_the_first(names: Any, index: int) -> None:
    containers = [{"name": name, "image": "a:1"} for name in names]
    found = build({"spec": {"containers": containers}})["spec"]["containers"]
    assert [("ports" in each) for each in found] == [at == index for at in range(2)]
    assert found[index]["ports"][0]["containerPort"] == 22270


@pytest.mark.parametrize(
    ("frame", "name", "told"),
    [
        ({"node": "n1", "kinds": {"n1": "fast"}}, "DI_NODE_KIND", "fast"),
        ({"node": "n2", "kinds": {"n1": "fast"}}, "DI_NODE_KIND", None),
        ({"kinds": {"n1": "fast"}}, "DI_NODE_KIND", None),
        ({"restarts": 0}, "DI_RESTARTS", None),
        ({"restarts": 2}, "DI_RESTARTS", "2"),
    ],
)
def test_a_pod_gets_its_node_type_and_earlier_restarts(
    frame: dict[str, Any], name: str, told: str | None
) -> None:
    body = build({"spec": {"containers": [container()]}}, **frame)
    assert {each["name"]: each["value"] for each in first(body)["env"]}.get(name) == told


@pytest.mark.parametrize(
    ("access", "files"),
    [
        (Access(token_audience="di-server"), ["TOKEN"]),
        (Access(token_audience="di-server", server_ca="-----BEGIN"), ["TOKEN", "CA"]),
        (Access(server_ca=""), ["CA"]),
    ],
)
def test_every_container_mounts_the_access_files_of_the_server(
    access: Access, files: list[str]
) -> None:
    own = {"name": "data", "mountPath": "/data"}
    init = [{"name": "prepare", "image": "init:1"}]
    containers = [container(volumeMounts=[own])]
    body = build({"spec": {"containers": containers, "initContainers": init}}, access=access)
    (volume,) = body["spec"]["volumes"]
    assert len(volume["projected"]["sources"]) == len(files)
    assert body["metadata"]["annotations"].get("diengine/server-ca") == access.server_ca
    folder = "/var/run/secrets/di-server"
    mount = {"name": "di-server-token", "mountPath": folder, "readOnly": True}
    for each in (*body["spec"]["containers"], *body["spec"]["initContainers"]):
        names = [variable["name"] for variable in each["env"] if "_FILE" in variable["name"]]
        assert names == [f"DI_SERVER_{file}_FILE" for file in files]
        assert each["volumeMounts"][-1] == mount
    assert first(body)["volumeMounts"][0] == own


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


@pytest.mark.proves("dijob.md#what-the-operator-overrules/dnspolicy-that-is-left-out-beside")
@pytest.mark.parametrize(
    ("spec", "policy"),
    [
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
        ({}, None),
    ],
)
def test_a_pod_on_the_network_of_its_host_has_the_dns_of_the_cluster(
    spec: dict[str, Any], policy: str | None
) -> None:
    body = build({"spec": {"containers": [container()], **spec}})
    assert body["spec"].get("dnsPolicy") == policy
