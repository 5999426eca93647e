"""Pods and Services of coordinated jobs: what unchanged DI-engine programs read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from di_api.spec import Replica, Role
from di_operator.builders.access import Access
from di_operator.builders.replica import Member, ReplicaFrame, replica_pod, replica_service

JOB = {"metadata": {"name": "job", "namespace": "rl", "uid": "uid-job"}}
FRAME = ReplicaFrame(
    job=JOB,
    volumes=(),
    priority_class_name="urgent",
    server_url="http://di-server.di:8080",
    access=Access(),
)
COLLECTOR = Replica(name="job-collector-bcdfg", role=Role.COLLECTOR)
COORDINATOR = Replica(name="job-coordinator", role=Role.COORDINATOR)


def template(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers) or [{"name": "di-container"}], **spec}}


def member(replica: Replica, given: dict[str, Any] | None = None, *group: Replica) -> Member:
    return Member(replica=replica, template=given or template(), group=group)


def env(pod: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}


def ddp(*gpus: int) -> list[Replica]:
    return [
        Replica(
            name=f"job-ddp-learner-{index}",
            role=Role.DDP_LEARNER,
            resources={"nvidia.com/gpu": str(count)},
            aggregator="job-aggregator-x",
        )
        for index, count in enumerate(gpus)
    ]


@pytest.mark.parametrize(
    ("role", "variable", "port"),
    [
        (Role.COORDINATOR, "COORDINATOR_PORT", "22273"),
        (Role.COLLECTOR, "COLLECTOR_PORT", "22270"),
        (Role.LEARNER, "LEARNER_PORT", "22271"),
        (Role.AGGREGATOR, "AGGREGATOR_PORT", "22272"),
    ],
)
def test_a_pod_gets_its_identity_and_port(role: Role, variable: str, port: str) -> None:
    given = env(replica_pod(FRAME, member(Replica(name="job-x", role=role))))
    wanted = {
        "KUBERNETES_POD_NAMESPACE": "rl",
        "KUBERNETES_POD_NAME": "job-x",
        "KUBERNETES_SERVER_URL": "http://di-server.di:8080",
        variable: port,
    }
    if role is Role.COORDINATOR:
        wanted["KUBERNETES_COORDINATOR_URL"] = "job-x.rl:22273"
    assert given == wanted


def test_every_container_gets_the_variables_and_keeps_its_own() -> None:
    own = {"name": "KUBERNETES_POD_NAME", "value": "mine"}
    given = template({"name": "a", "env": [own]}, initContainers=[{"name": "b"}])
    spec = replica_pod(FRAME, member(COLLECTOR, given))["spec"]
    assert [e for e in spec["containers"][0]["env"] if e["name"] == own["name"]] == [own]
    assert len(spec["initContainers"][0]["env"]) == 4


def test_labels_are_those_of_the_contract_beside_the_templates() -> None:
    given = {**template(), "metadata": {"labels": {"team": "rl"}, "annotations": {"note": "x"}}}
    metadata = replica_pod(FRAME, member(COLLECTOR, given))["metadata"]
    assert metadata["labels"] == {
        "team": "rl",
        "diengine/job": "job",
        "diengine/operator": "di-operator",
        "diengine/task-name": "collector",
        "group-name": "diengine.opendilab.org",
        "dijob-name": "job",
        "controller-name": "di-operator",
        "replica-type": "collector",
        "pod-name": "job-collector-bcdfg",
    }
    assert metadata["annotations"] == {"note": "x"}
    assert metadata["ownerReferences"][0]["uid"] == "uid-job"


@pytest.mark.proves("dijob.md#jobs-with-a-coordinator/priorityclassname")
def test_only_a_coordinator_is_never_restarted_and_gets_the_priority() -> None:
    spec = replica_pod(FRAME, member(COORDINATOR))["spec"]
    assert (spec["restartPolicy"], spec["priorityClassName"]) == ("Never", "urgent")
    kept = replica_pod(FRAME, member(COORDINATOR, template(restartPolicy="OnFailure")))["spec"]
    assert kept["restartPolicy"] == "OnFailure"
    other = replica_pod(FRAME, member(COLLECTOR))["spec"]
    assert {"restartPolicy", "priorityClassName"} & other.keys() == set()


def test_the_port_is_added_to_the_main_container() -> None:
    def ports(*containers: dict[str, Any]) -> list[Any]:
        spec = replica_pod(FRAME, member(COLLECTOR, template(*containers)))["spec"]
        return [container.get("ports") for container in spec["containers"]]

    added = [{"name": "di-port", "containerPort": 22270, "protocol": "TCP"}]
    assert ports({"name": "a"}, {"name": "di-container"}) == [None, added]
    assert ports({"name": "a"}, {"name": "b"}) == [added, None]
    own = [{"name": "di-port", "containerPort": 80}]
    assert ports({"name": "di-container", "ports": own}) == [own]


def test_what_the_coordinator_asked_for_is_requested_and_is_the_limit() -> None:
    given = {"name": "di-container", "resources": {"requests": {"cpu": "1"}, "limits": {"x/y": 1}}}
    asked = Replica(
        name="job-learner-x",
        role=Role.LEARNER,
        resources={"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1, "none": "0"},
    )
    pod = replica_pod(FRAME, member(asked, template({"name": "sidecar"}, given)))
    sidecar, main = pod["spec"]["containers"]
    assert "resources" not in sidecar
    wanted = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1}
    assert main["resources"] == {"requests": wanted, "limits": {"x/y": 1, **wanted}}


def test_ddp_learners_know_their_ranks_and_their_master() -> None:
    group = ddp(8, 2)
    first, second = (env(replica_pod(FRAME, member(each, None, *group))) for each in group)
    keys = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "START_RANK", "MASTER_ADDR", "MASTER_PORT")
    assert [first[key] for key in keys] == ["10", "8", "0", "localhost", "10314"]
    assert [second[key] for key in keys] == ["10", "2", "8", "job-ddp-learner-0", "10314"]


def test_ddp_learners_have_a_port_for_each_gpu() -> None:
    group = ddp(3, 2)
    pods = [replica_pod(FRAME, member(each, None, *group)) for each in group]
    ports = [{p["name"]: p["containerPort"] for p in pod["spec"]["containers"][0]["ports"]}
             for pod in pods]  # fmt: skip
    assert ports == [
        {"di-port": 22271, "gpu-port-1": 22272, "gpu-port-2": 22273, "master-port": 10314},
        {"di-port": 22271, "gpu-port-1": 22272},
    ]
    kinds = [pod["metadata"]["labels"]["ddp-learner-type"] for pod in pods]
    assert kinds == ["ddp-learner-master", "ddp-learner-worker"]


def test_the_service_bears_the_pods_name_and_selects_it_alone() -> None:
    group = ddp(2)
    service = replica_service(JOB, member(group[0], None, *group))
    pod = replica_pod(FRAME, member(group[0], None, *group))
    assert service["metadata"]["name"] == pod["metadata"]["name"]
    assert service["metadata"]["labels"] == pod["metadata"]["labels"]
    selector = service["spec"]["selector"]
    assert selector.items() <= pod["metadata"]["labels"].items()
    assert selector["pod-name"] == pod["metadata"]["name"]
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == (
        "None",
        True,
    )
    assert {each["name"]: each["port"] for each in service["spec"]["ports"]} == {
        "di-port": 22271,
        "gpu-port-1": 22272,
        "master-port": 10314,
    }


def test_the_class_of_the_jobs_priority_is_that_of_pods_without_one() -> None:
    frame = replace(FRAME, priority_class="high")
    found = [
        replica_pod(each, member(replica, given))["spec"].get("priorityClassName")
        for each, replica, given in (
            (frame, COORDINATOR, None),
            (replace(frame, priority_class_name=None), COORDINATOR, None),
            (frame, COLLECTOR, None),
            (frame, COLLECTOR, template(priorityClassName="own")),
        )
    ]
    assert found == ["urgent", "high", "high", "own"]


def test_volumes_of_the_job_and_the_token_reach_every_pod() -> None:
    frame = ReplicaFrame(
        job=JOB,
        volumes=({"name": "work", "emptyDir": {}},),
        priority_class_name=None,
        server_url="http://s",
        access=Access(token_audience="di-server"),
    )
    pod = replica_pod(frame, member(COLLECTOR))
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["work", "di-server-token"]
    assert "DI_SERVER_TOKEN_FILE" in env(pod)
    assert pod["spec"]["containers"][0]["volumeMounts"][0]["name"] == "di-server-token"
