"""The numbers of the ports that tasks ask for, through the decisions that make their pods."""

from __future__ import annotations

from typing import Any

import pytest

from di_api import names
from di_api.coordinated import PORT_VARIABLES, port_of
from di_api.spec import PortScope, Task, TaskPort, TaskType
from di_api.spec.bounds import MAX_TASKS
from di_api.spec.task_service import MAX_TASK_PORTS
from di_operator.builders.ports import JobPorts
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task

RPC, METRICS = {"name": "rpc", "scope": "Pod"}, {"name": "worker-metrics"}
MEETING = {"name": "meeting", "scope": "Job"}


def settled(*tasks: Any, uid: str = "uid-x") -> ClusterModel:
    return ClusterModel(job(*tasks, uid=uid)).settle()


def told(cluster: ClusterModel, pod: str) -> dict[str, int]:
    """The ports in a pod's variables."""
    prefix = "DI_PORT_"
    found = cluster.env(pod).items()
    return {name.removeprefix(prefix): int(n) for name, n in found if name.startswith(prefix)}


def declared(cluster: ClusterModel, pod: str) -> dict[str, Any]:
    (container,) = cluster.pods[pod]["spec"]["containers"]
    return {port["name"]: port for port in container["ports"]}


def on_host() -> Any:
    containers = [{"name": "di-container", "image": "train:1"}]
    return {"spec": {"hostNetwork": True, "containers": containers}}


@pytest.mark.proves(
    "roles.md#ports/pod-the-default",
    "dijob.md#spec-tasks/scope",
    "dijob.md#spec-tasks/ports",
    "dijob.md#spec-tasks/name-name-of-a-port",
)
def test_each_pod_has_numbers_of_its_own_and_declares_them() -> None:
    cluster = settled(task("learner", 2, ports=[RPC, METRICS]), task("judge", ports=[RPC]))
    numbers = [told(cluster, pod) for pod in ("x-learner-0", "x-learner-1", "x-judge-0")]
    assert [[*each] for each in numbers] == [["RPC", "WORKER_METRICS"]] * 2 + [["RPC"]]
    every = [number for each in numbers for number in each.values()]
    assert len({*every}) == len(every)
    assert {*every} <= {*names.POD_PORTS}
    assert declared(cluster, "x-judge-0") == {
        "di-port": {"name": "di-port", "containerPort": names.DI_PORT, "protocol": "TCP"},
        "rpc": {"name": "rpc", "containerPort": numbers[2]["RPC"], "protocol": "TCP"},
    }


@pytest.mark.proves("roles.md#ports/job", "dijob.md#spec-tasks/scope")
def test_a_job_port_has_one_number_in_all_pods() -> None:
    cluster = settled(
        task("learner", 2, ports=[MEETING]), task("judge", ports=[MEETING, RPC]), task("rollout")
    )
    numbers = {told(cluster, pod)["MEETING"] for pod in cluster.pods}
    assert len(numbers) == 1
    assert numbers <= {*names.JOB_PORTS}
    assert {pod: "meeting" in declared(cluster, pod) for pod in cluster.pods} == {
        "x-learner-0": True,
        "x-learner-1": True,
        "x-judge-0": True,
        "x-rollout-0": False,
    }


def test_host_network_pods_use_host_ports_without_the_default_one() -> None:
    cluster = settled(
        task("learner", 2, ports=[RPC], template=on_host()), task("rollout", template=on_host())
    )
    for pod in ("x-learner-0", "x-learner-1"):
        number = told(cluster, pod)["RPC"]
        port = {"name": "rpc", "containerPort": number, "hostPort": number, "protocol": "TCP"}
        assert declared(cluster, pod) == {"rpc": port}
    assert [*declared(cluster, "x-rollout-0")] == ["di-port"]


def test_a_pod_that_takes_the_place_of_another_has_its_numbers() -> None:
    cluster = settled(task("learner", 3, ports=[RPC, METRICS])).run().settle()
    before = told(cluster, "x-learner-1")
    uid = cluster.pods["x-learner-1"]["metadata"]["uid"]
    cluster.fail("x-learner-1").settle()
    assert cluster.pods["x-learner-1"]["metadata"]["uid"] != uid
    assert told(cluster, "x-learner-1") == before


def test_jobs_begin_in_different_places() -> None:
    tasks = (task("learner", 2, ports=[RPC, MEETING]),)
    one, other = settled(*tasks), settled(*tasks, uid="uid-y")
    for pod in one.pods:
        assert {*told(one, pod).values()}.isdisjoint(told(other, pod).values())


def test_the_order_in_the_spec_does_not_matter() -> None:
    one = settled(task("learner", ports=[RPC, METRICS]))
    other = settled(task("learner", ports=[METRICS, RPC]))
    assert told(one, "x-learner-0") == told(other, "x-learner-0")


def listening(name: str, ports: int, scope: PortScope) -> Task:
    found = tuple(TaskPort(name=f"{name}-{n}", scope=scope) for n in range(ports))
    return Task(name=name, type=TaskType.NONE, template={}, ports=found)


def test_pods_differ_as_long_as_their_ports_fit_into_the_range() -> None:
    large = listening("a", MAX_TASK_PORTS, PortScope.POD)
    small = listening("b", 1, PortScope.POD)
    fitting = len(names.POD_PORTS) // MAX_TASK_PORTS
    ports = JobPorts.of("uid", (large, small))
    found = [
        number
        for rank in range(fitting)
        for number in ports.listened(small if rank % 2 else large, rank).values()
    ]
    assert len({*found}) == len(found) > 1000


def test_the_ports_of_the_largest_job_differ() -> None:
    tasks = [listening(f"t{n}", MAX_TASK_PORTS, PortScope.JOB) for n in range(MAX_TASKS)]
    ports = JobPorts.of("uid", tasks)
    assert len({*ports.of_job.values()}) == MAX_TASKS * MAX_TASK_PORTS


@pytest.mark.parametrize("among", [names.JOB_PORTS, names.POD_PORTS])
def test_no_number_is_one_that_something_else_has(among: range) -> None:
    others = {names.DI_PORT, names.MASTER_PORT, names.SERVER_PORT, names.SERVER_TLS_PORT, 29500}
    others |= {port_of({}, role) for role in PORT_VARIABLES}
    assert others.isdisjoint(among)
    assert among[0] > 1024
    # Node ports, and further up what Linux gives to clients.
    assert among[-1] < 30_000
    assert {*names.JOB_PORTS}.isdisjoint(names.POD_PORTS)
