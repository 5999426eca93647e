"""Who a pod is, by the variables of the contract alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import di_orchestrator
from di_api import names
from di_operator.builders.access import ENV_TOKEN_FILE
from di_orchestrator import HOLE, PORT, BadEnvironment, Job, NotInJob, ProcessGroup, World
from tests.unit.sdk.conftest import LEARNER

COLLECTOR = {
    **LEARNER,
    names.ENV_RANK: "2",
    names.ENV_TASK_NAME: "collector",
    names.ENV_TASK_TYPE: "collector",
    names.ENV_TASK_RANK: "1",
}


@pytest.mark.proves(
    "sdk.md#reference/di-job-job",
    "sdk.md#reference/id-str",
    "sdk.md#reference/pod-str",
    "sdk.md#reference/of-environment-mapping-str-str-job",
    "sdk.md#reference/address-str",
)
def test_a_pod_knows_its_place() -> None:
    job = Job.of({**COLLECTOR, names.ENV_TIER: "elastic", names.ENV_NODE_KIND: "a100"})
    assert (job.is_inside, job.id, job.namespace, job.name) == (
        True,
        "rl/cartpole",
        "rl",
        "cartpole",
    )
    assert (job.task, job.task_type, job.rank, job.index) == ("collector", "collector", 2, 1)
    assert (job.tier, job.node_kind, job.is_leader, job.is_replica_leader) == (
        *("elastic", "a100"),
        *(False, True),
    )
    assert job.pod == names.pod_name("cartpole", "collector", 1)
    assert job.replica_index == 1
    assert job.address == "collector-1"
    assert Job.of({}).address == "localhost"


def test_a_pod_knows_its_jobs_restarts() -> None:
    assert Job.of(COLLECTOR).attempt == 0
    assert Job.of({**COLLECTOR, names.ENV_RESTARTS: "2"}).attempt == 2
    with pytest.raises(BadEnvironment, match="DI_RESTARTS"):
        Job.of({**COLLECTOR, names.ENV_RESTARTS: "often"})


@pytest.mark.proves("sdk.md#reference/is-leader-bool")
def test_the_first_pod_of_a_task_leads() -> None:
    assert Job.of(LEARNER).is_leader


@pytest.mark.proves("sdk.md#reference/is-replica-leader-bool")
def test_a_pod_knows_its_place_in_a_replica() -> None:
    of_replica = {
        names.ENV_TASK_RANK: "3",
        names.ENV_REPLICA_INDEX: "1",
        names.ENV_REPLICA_RANK: "1",
        names.ENV_REPLICA_SIZE: "2",
        names.ENV_REPLICA_LEADER: "cartpole-collector-1-0.di-cartpole",
    }
    job = Job.of({**COLLECTOR, **of_replica})
    assert (job.replica_index, job.replica_rank, job.replica_size) == (1, 1, 2)
    assert not job.is_replica_leader
    assert job.pod == names.pod_name("cartpole", "collector", 3, 2)


@pytest.mark.proves(
    "sdk.md#who-am-i-who-are-the-others/job-addresses-task",
    "sdk.md#reference/addresses-task-str-tuple-str",
    "sdk.md#reference/count-task-str-int-none",
)
def test_addresses_are_read_by_task(tmp_path: Path) -> None:
    assert Job.of(LEARNER).addresses("collector") == ("collector-0", "collector-1")
    assert [Job.of(LEARNER).count(task) for task in ("collector", "judge")] == [2, None]
    assert HOLE == names.NODE_HOLE
    vacant = {**LEARNER, names.task_nodes_env("collector"): f"collector-0,{HOLE},collector-2"}
    assert Job.of(vacant).count("collector") == 2
    listed = tmp_path / "nodes"
    listed.write_text("a,b\n")
    many = {**LEARNER, names.task_nodes_file_env("roll-out"): str(listed)}
    assert Job.of(many).addresses("roll-out") == ("a", "b")
    listed.unlink()
    with pytest.raises(BadEnvironment, match="DI_ROLL_OUT_NODES_FILE"):
        Job.of(many).addresses("roll-out")


@pytest.mark.proves(
    "sdk.md#reference/port-name-str-di-port-int", "sdk.md#reference/service-task-str-str"
)
def test_ports_and_services_are_read_by_name() -> None:
    told = {**LEARNER, names.port_env("rdzv"): "23001", names.task_service_env("judge"): "j:80"}
    job = Job.of(told)
    assert (job.port("rdzv"), job.port(), job.service("judge")) == (23001, names.DI_PORT, "j:80")
    assert PORT == names.DI_PORT
    with pytest.raises(BadEnvironment, match="DI_PORT_METRICS is not set"):
        job.port("metrics")


@pytest.mark.proves("sdk.md#reference/is-first-in-pod-bool")
@pytest.mark.parametrize(
    "variables",
    [
        ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"),
    ],
)
def test_ranks_of_mpi_are_those_that_mpi_sets(variables: tuple[str, str, str]) -> None:
    master = {"MASTER_ADDR": "m", "MASTER_PORT": "10314"}
    of_process = dict(zip(variables, ("4", "3", "1"), strict=True))
    job = Job.of({**LEARNER, **master, **of_process})
    assert job.process_group == ProcessGroup("m", 10314, 4, 3)
    assert not job.is_first_process
    assert not job.is_first_in_pod
    first = Job.of({**LEARNER, **master, **dict(zip(variables, "400", strict=True))})
    assert first.is_first_process
    assert first.is_first_in_pod


@pytest.mark.proves("sdk.md#reference/di-processgroup-master-address-str")
@pytest.mark.proves("sdk.md#reference/process-group-processgroup-none")
def test_a_process_group_is_read_for_each_framework() -> None:
    torch = {"MASTER_ADDR": "m", "MASTER_PORT": "10314", "WORLD_SIZE": "4", "RANK": "1"}
    assert Job.of({**LEARNER, **torch}).process_group == ProcessGroup("m", 10314, 4, 1)
    launched = {"MASTER_ADDR": "m", "MASTER_PORT": "10314"}
    assert Job.of({**LEARNER, **launched}).process_group == ProcessGroup("m", 10314, None, None)
    jax = {
        names.ENV_JAX_COORDINATOR: "m:10314",
        names.ENV_JAX_PROCESSES: "2",
        names.ENV_JAX_PROCESS: "0",
    }
    assert Job.of({**LEARNER, **jax}).process_group == ProcessGroup("m", 10314, 2, 0)
    assert Job.of(LEARNER).process_group is None
    with pytest.raises(BadEnvironment, match=names.ENV_JAX_COORDINATOR):
        _ = Job.of({**LEARNER, **jax, names.ENV_JAX_COORDINATOR: "m"}).process_group


@pytest.mark.proves("sdk.md#the-variables-of-a-pod/di-job-uid")
def test_the_uid_tells_two_jobs_of_one_name_apart() -> None:
    assert Job.of({**LEARNER, names.ENV_JOB_UID: "u-1"}).uid == "u-1"
    assert Job.of(LEARNER).uid == ""


@pytest.mark.proves("sdk.md#reference/is-first-process-bool")
def test_the_first_process_of_the_group_saves_and_reports() -> None:
    torch = {"MASTER_ADDR": "m", "MASTER_PORT": "10314", "WORLD_SIZE": "2"}
    replica = {
        names.ENV_REPLICA_INDEX: "1",
        names.ENV_REPLICA_LEADER: "m",
        names.ENV_REPLICA_SIZE: "2",
    }
    told: list[dict[str, str]] = [
        {},
        {names.ENV_TASK_RANK: "1"},
        {**torch, "RANK": "1"},
        # torchrun gives rank 0 to any member of an elastic group.
        {**torch, "RANK": "0", names.ENV_TASK_RANK: "1"},
        {**torch, **replica, "RANK": "0"},
    ]
    found = [Job.of({**LEARNER, **each}).is_first_process for each in told]
    assert found == [True, False, False, True, False]
    assert Job.of({}).is_first_process


@pytest.mark.proves("sdk.md#reference/di-world-generation-int-is-formed-bool")
@pytest.mark.proves(
    "sdk.md#who-am-i-who-are-the-others/job-world", "sdk.md#reference/world-world-none"
)
def test_the_world_is_read_from_its_file(tmp_path: Path) -> None:
    told = tmp_path / "groups.learner"
    job = Job.of({**LEARNER, names.ENV_GROUP_FILE: str(told)})
    assert job.world() is None
    said = {"generation": 2, "state": "Formed", "masterAddress": "m", "members": [0, 2]}
    told.write_text(json.dumps(said))
    assert job.world() == World(2, True, (0, 2), "m")
    told.write_text("{")
    assert job.world() is None
    assert Job.of(LEARNER).world() is None


@pytest.mark.proves("sdk.md#reference/di-badenvironment")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (names.ENV_JOB_ID, "cartpole"),
        (names.ENV_RANK, None),
        (names.ENV_RANK, "-1"),
        (names.ENV_RANK, "٣"),
        (names.ENV_TASK_NAME, None),
        (names.ENV_TASK_RANK, "x"),
        (names.ENV_REPLICA_SIZE, ""),
    ],
)
def test_a_bad_variable_is_named(name: str, value: str | None) -> None:
    broken = {key: held for key, held in LEARNER.items() if key != name}
    with pytest.raises(BadEnvironment, match=f"{name} is .*should be .*template"):
        Job.of(broken if value is None else {**broken, name: value})


def test_outside_a_job_the_program_is_a_single_pod() -> None:
    job = Job.of({})
    assert (job.is_inside, job.id, job.pod, job.rank, job.is_leader) == (False, "", "", 0, True)
    assert (job.addresses("collector"), job.world(), job.process_group) == ((), None, None)
    assert job.port() == PORT
    for ask in (lambda: job.service("judge"), lambda: job.port("rdzv")):
        with pytest.raises(NotInJob, match="submit the program as a DIJob"):
            ask()


def test_the_package_reads_variables_of_the_contract_only() -> None:
    folder = Path(di_orchestrator.__file__).parent
    code = "".join(file.read_text() for file in folder.rglob("*.py"))
    read = {
        found
        for found in re.findall(r'"((?:DI|JAX|KUBERNETES|MASTER|WORLD)_[A-Z_]+|RANK)"', code)
        if found != "DI_TEST"
    }
    known = {held for name, held in vars(names).items() if name.startswith("ENV_")}
    assert read - known == {ENV_TOKEN_FILE}
    assert len(read) > 15
