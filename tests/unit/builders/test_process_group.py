"""The variables of a process group, by framework; what else is in a pod, `tests/golden` has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from di_api.frameworks import FRAMEWORKS
from di_api.frameworks.declaration import MOST_LISTED
from di_api.spec import Framework, ProcessGroup, Task, TaskType
from di_operator.builders.nodes import MAX_VARIABLE
from di_operator.builders.process_group import group_environment

NODES = ("x-learner-0.di-x.rl.svc", "x-learner-1.di-x.rl.svc", "x-learner-2.di-x.rl.svc")
MASTER = {"MASTER_ADDR": NODES[0], "MASTER_PORT": "10314"}
TORCHRUN = {
    "PET_NNODES": "3",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": NODES[0],
    "PET_MASTER_PORT": "10314",
}


def variables(*ports: Any, **group: Any) -> dict[str, str]:
    """Those of the second of three learners."""
    container = {"name": "c", "image": "train:1", "ports": [*ports]}
    task = Task(
        name="learner",
        type=TaskType.LEARNER,
        replicas=3,
        min_replicas=2,
        max_replicas=5,
        process_group=ProcessGroup(**group),
        template={"spec": {"containers": [container]}},
    )
    return dict(group_environment(task, 1, NODES))


@pytest.mark.proves(
    "process-groups.md#variables/torch-master-addr-master-port",
    "process-groups.md#variables/torch-world-size-rank-local-world-size-1-local",
    "dijob.md#spec-tasks/processgroup-framework",
)
def test_a_process_of_torch_in_each_pod_needs_no_torchrun() -> None:
    assert variables(framework=Framework.TORCH) == {
        **MASTER,
        "WORLD_SIZE": "3",
        "RANK": "1",
        "LOCAL_WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        **TORCHRUN,
        "PET_NPROC_PER_NODE": "1",
    }


@pytest.mark.proves(
    "process-groups.md#variables/torch-pet-nnodes-pet-nproc-per-node-pet-node",
    "dijob.md#spec-tasks/processgroup-processesperreplica",
)
def test_what_torchrun_gives_each_of_several_processes_is_left_to_it() -> None:
    found = variables(framework=Framework.TORCH, processes_per_replica=4)
    assert found == {**MASTER, **TORCHRUN, "PET_NPROC_PER_NODE": "4"}


@pytest.mark.proves("process-groups.md#torchrun/*")
def test_an_elastic_group_of_torch_meets_at_a_store_in_the_first_pod() -> None:
    assert variables(framework=Framework.TORCH, elastic=True, last_call_seconds=5) == {
        "PET_NNODES": "2:5",
        "PET_NPROC_PER_NODE": "1",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": f"{NODES[0]}:10314",
        "PET_RDZV_CONF": "is_host=false,join_timeout=600,last_call_timeout=5,read_timeout=600",
        "PET_MAX_RESTARTS": "10",
    }


@pytest.mark.proves(
    "process-groups.md#variables/jax-jax-coordinator-address",
    "process-groups.md#variables/jax-jax-num-processes-jax-process-id",
    "dijob.md#spec-tasks/processgroup-framework",
)
def test_jax() -> None:
    assert variables(framework=Framework.JAX) == {
        "JAX_COORDINATOR_ADDRESS": f"{NODES[0]}:10314",
        "JAX_NUM_PROCESSES": "3",
        "JAX_PROCESS_ID": "1",
    }


WORKER = {
    "DMLC_TRACKER_URI": NODES[0],
    "DMLC_TRACKER_PORT": "10314",
    "DMLC_NUM_WORKER": "3",
    "DMLC_TASK_ID": "1",
    "DMLC_RETRY": "25",
}


@pytest.mark.proves(
    "process-groups.md#variables/xgboost-dmlc-tracker-uri-dmlc-tracker-port",
    "process-groups.md#variables/xgboost-dmlc-num-worker-dmlc-task-id-dmlc-retry",
    "process-groups.md#variables/xgboost-master-addr-master-port-world-size-rank",
    "dijob.md#spec-tasks/processgroup-framework",
)
def test_workers_of_xgboost_meet_at_a_tracker_in_the_first_pod() -> None:
    place = {"WORLD_SIZE": "3", "RANK": "1"}
    assert variables(framework=Framework.XGBOOST) == {**MASTER, **place, **WORKER}


def test_task_ids_of_xgboost_have_one_order_as_texts_and_as_numbers() -> None:
    """Its tracker sorts texts."""
    group = ProcessGroup(framework=Framework.XGBOOST)
    nodes = tuple(f"x-learner-{index}" for index in range(12))
    task = Task(
        name="learner", type=TaskType.LEARNER, replicas=12, process_group=group, template={}
    )
    ids = [group_environment(task, index, nodes)["DMLC_TASK_ID"] for index in range(12)]
    assert ids == sorted(ids)
    assert [*map(int, ids)] == [*range(12)]


@pytest.mark.parametrize("seconds", [1, 2, 3, 6, 7, 600, 601, 86_400])
def test_workers_of_xgboost_wait_for_the_deadline_and_no_attempt_longer(seconds: int) -> None:
    """Before the n-th further attempt the library waits for 2n seconds."""
    found = variables(framework=Framework.XGBOOST, deadline_seconds=seconds)
    attempts = int(found["DMLC_RETRY"])
    assert attempts * (attempts - 1) >= seconds
    assert (attempts - 1) * (attempts - 2) < seconds


@pytest.mark.proves(
    "process-groups.md#variables/paddle-paddle-trainer-id-paddle-trainers-num",
    "process-groups.md#variables/paddle-master-addr-master-port-world-size-rank",
    "process-groups.md#variables/paddle-paddle-master-paddle-nnodes-paddle-nproc",
    "dijob.md#spec-tasks/processgroup-framework",
)
def test_a_trainer_of_paddle_in_each_pod_needs_no_launcher() -> None:
    launcher = {"PADDLE_MASTER": f"{NODES[0]}:10314", "PADDLE_NNODES": "3", "PADDLE_RANK": "1"}
    assert variables(framework=Framework.PADDLE) == {
        **MASTER,
        "WORLD_SIZE": "3",
        "RANK": "1",
        "PADDLE_TRAINER_ID": "1",
        "PADDLE_TRAINERS_NUM": "3",
        "PADDLE_TRAINER_ENDPOINTS": ",".join(f"{node}:10314" for node in NODES),
        "PADDLE_CURRENT_ENDPOINT": f"{NODES[1]}:10314",
        **launcher,
        "PADDLE_NPROC_PER_NODE": "1",
    }
    several = variables(framework=Framework.PADDLE, processes_per_replica=4)
    assert several == {**launcher, "PADDLE_NPROC_PER_NODE": "4"}


@pytest.mark.proves(
    "process-groups.md#variables/mpi-master-addr-master-port",
    "process-groups.md#variables/mpi-di-mpi-hosts-di-mpi-slots-di-mpi-index",
    "dijob.md#spec-tasks/processgroup-framework",
)
def test_a_host_file_of_mpi_has_all_pods_with_their_slots() -> None:
    assert variables(framework=Framework.MPI, processes_per_replica=4, deadline_seconds=90) == {
        **MASTER,
        "DI_MPI_HOSTS": ",".join(NODES),
        "DI_MPI_SLOTS": "4",
        "DI_MPI_INDEX": "1",
        "DI_MPI_PORT": "10314",
        "DI_MPI_WAIT_SECONDS": "90",
    }


def members(*ports: Any, **sizes: int) -> dict[str, dict[str, str]]:
    """The variables of all pods of a cluster of TensorFlow, by pod; ports are those of workers."""
    group = ProcessGroup(framework=Framework.TENSORFLOW)
    tasks = {}
    for name, size in sizes.items():
        container = {"name": "c", "image": "i", "ports": [*ports] if name == "worker" else []}
        task = Task(
            name=name,
            type=TaskType.NONE,
            replicas=size,
            process_group=group,
            template={"spec": {"containers": [container]}},
        )
        tasks[task.name] = (task, tuple(f"x-{name}-{index}" for index in range(size)))
    other = Task(name="other", type=TaskType.NONE, replicas=1, template={})
    every = [*tasks.values(), (other, ("x-other-0",))]
    return {
        node: dict(group_environment(task, index, nodes, every))
        for task, nodes in tasks.values()
        for index, node in enumerate(nodes)
    }


@pytest.mark.proves(
    "process-groups.md#variables/tensorflow-tf-config",
    "process-groups.md#variables/tensorflow-master-addr-master-port-world-size-rank",
    "dijob.md#spec-tasks/processgroup-framework",
)
def test_a_cluster_of_tensorflow_is_made_of_the_tasks_with_its_roles() -> None:
    found = members(chief=1, worker=2, ps=1, evaluator=1)
    configs = {pod: json.loads(each["TF_CONFIG"]) for pod, each in found.items()}
    cluster = {
        "chief": ["x-chief-0:11338"],
        "worker": ["x-worker-0:12362", "x-worker-1:12363"],
        "ps": ["x-ps-0:13386"],
    }
    assert all(config["cluster"] == cluster for config in configs.values())
    assert configs["x-worker-1"]["task"] == {"type": "worker", "index": 1}
    assert configs["x-evaluator-0"]["task"] == {"type": "evaluator", "index": 0}
    del found["x-worker-1"]["TF_CONFIG"]
    place = {"MASTER_ADDR": "x-worker-0", "MASTER_PORT": "10314", "WORLD_SIZE": "2", "RANK": "1"}
    assert found["x-worker-1"] == place


def test_pods_of_a_cluster_of_tensorflow_have_different_ports() -> None:
    """Its servers listen at all addresses, so pods on one host network need them."""
    found = members(chief=1, worker=256, ps=256)
    cluster = json.loads(found["x-chief-0"]["TF_CONFIG"])["cluster"]
    ports = [address.rpartition(":")[2] for each in cluster.values() for address in each]
    assert len(set(ports)) == 1 + 256 + 256
    assert not {"10314", "10315"} & set(ports)


def test_a_named_port_is_that_of_all_pods_of_its_task() -> None:
    found = members({"name": "master-port", "containerPort": 7}, worker=2)
    config = json.loads(found["x-worker-1"]["TF_CONFIG"])
    assert config["cluster"] == {"worker": ["x-worker-0:7", "x-worker-1:7"]}


def test_a_task_without_pods_is_not_in_the_cluster() -> None:
    found = members(worker=1, ps=0)
    assert [*json.loads(found["x-worker-0"]["TF_CONFIG"])["cluster"]] == ["worker"]


def test_the_longest_addresses_of_a_cluster_fit_into_one_variable() -> None:
    label = "a" * 63
    domain = f".di-{label}.{label}.svc.cluster.local"
    group = ProcessGroup(framework=Framework.TENSORFLOW)
    every = []
    for name, size in (("chief", 1), ("worker", MOST_LISTED), ("ps", MOST_LISTED)):
        task = Task(name=name, type=TaskType.NONE, replicas=size, process_group=group, template={})
        every.append((task, (f"{label}{domain}",) * size))
    task, nodes = every[1]
    config = group_environment(task, 0, nodes, every)["TF_CONFIG"]
    assert len(f"TF_CONFIG={config}") < MAX_VARIABLE


@pytest.mark.proves(
    "process-groups.md#variables/none", "dijob.md#spec-tasks/processgroup-framework"
)
def test_a_group_of_no_framework_has_no_variables() -> None:
    assert variables() == {}


def test_a_port_of_the_template_is_the_masters() -> None:
    ports = ({"name": "di-port", "containerPort": 1}, {"name": "master-port", "containerPort": 7})
    found = variables(*ports, framework=Framework.TORCH)
    assert (found["MASTER_PORT"], found["PET_MASTER_PORT"]) == ("7", "7")
    jax = variables(*ports, framework=Framework.JAX)
    assert jax["JAX_COORDINATOR_ADDRESS"] == f"{NODES[0]}:7"


@pytest.mark.proves("teams.md#feature-by-feature/plug-ins-of-a-job")
@pytest.mark.parametrize("framework", Framework)
def test_every_framework_has_its_row(framework: Framework) -> None:
    assert framework in FRAMEWORKS
