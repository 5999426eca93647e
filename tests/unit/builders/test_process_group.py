"""The variables of a process group, by framework; what else is in a pod, `tests/golden` has."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.frameworks import FRAMEWORKS
from di_api.spec import Framework, ProcessGroup, Task, TaskType
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
