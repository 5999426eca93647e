"""Jobs with a coordinator: their shape, their rules, and the names that follow from them."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.coordinated import (
    LONGEST_JOB_NAME,
    address,
    coordinator_name,
    job_of,
    port_of,
    replica_name,
)
from di_api.defaults import defaults_patch
from di_api.spec import MAX_REPLICAS, Replica, Role
from di_api.validation import load_leniently, validate_job, validate_update
from tests.unit.api.jobs import Job, coordinated_job, template


def messages(job: Job) -> list[str]:
    return [str(error) for error in validate_job(job)]


REPLICAS: list[dict[str, Any]] = [
    {"name": "job-aggregator-bcdfg", "role": "aggregator"},
    {
        "name": "job-ddp-learner-bcdfg",
        "role": "ddp-learner",
        "resources": {"nvidia.com/gpu": 8, "memory": "1Gi"},
        "generation": 2,
        "aggregator": "job-aggregator-bcdfg",
    },
]


@pytest.mark.proves(
    "dijob.md#spec/coordinated",
    "dijob.md#jobs-with-a-coordinator/coordinator-template",
    "dijob.md#jobs-with-a-coordinator/collector-template",
    "dijob.md#jobs-with-a-coordinator/learner-template",
)
def test_a_coordinated_job_is_accepted_and_read() -> None:
    job = coordinated_job(coordinated={"replicas": REPLICAS, "priorityClassName": "high"})
    assert messages(job) == []
    spec = load_leniently(job["spec"])
    assert spec.coordinated is not None
    assert spec.tasks == ()
    assert spec.replicas == 3
    assert spec.coordinated.priority_class_name == "high"
    assert [each.role for each in spec.coordinated.replicas] == [Role.AGGREGATOR, Role.DDP_LEARNER]
    [learner] = spec.coordinated.group("job-aggregator-bcdfg")
    assert (learner.gpus, learner.generation) == (8, 2)
    assert spec.coordinated.template(Role.DDP_LEARNER) == template()
    assert spec.coordinated.template(Role.AGGREGATOR) is None
    del job["spec"]["coordinated"]["learner"], job["spec"]["coordinated"]["replicas"]
    without = load_leniently(job["spec"]).coordinated
    assert without is not None
    assert without.template(Role.LEARNER) is None


@pytest.mark.proves(
    "dijob.md#jobs-with-a-coordinator/replicas",
    "dijob.md#jobs-with-a-coordinator/name",
    "dijob.md#jobs-with-a-coordinator/role",
    "dijob.md#jobs-with-a-coordinator/resources",
    "dijob.md#jobs-with-a-coordinator/generation",
    "dijob.md#jobs-with-a-coordinator/aggregator",
)
def test_a_replica_is_dumped_as_it_was_read() -> None:
    assert [Replica.read(entry).dump() for entry in REPLICAS] == REPLICAS
    half = {**REPLICAS[0], "resources": {"nvidia.com/gpu": "500m"}}
    assert [Replica.read(entry).gpus for entry in (*REPLICAS, half)] == [0, 8, 0]


@pytest.mark.proves("teams-gangs.md#what-does-not-go-together/coordinated")
def test_only_the_replicas_of_a_coordinated_job_may_change() -> None:
    old = coordinated_job()
    assert validate_update(old, coordinated_job(coordinated={"replicas": REPLICAS})) == []
    other = template()
    other["spec"]["containers"][0]["image"] = "other"
    changed = coordinated_job(
        coordinated={"collector": {"template": other}}, volumes=[{"name": "a"}]
    )
    assert [error.path for error in validate_update(old, changed)] == [
        "spec.coordinated.collector.template.spec.containers[0].image",
        "spec.volumes",
    ]


def test_replicas_may_go_beside_one_that_was_wrong_already() -> None:
    bad = {"name": "job-collector-bcdfg", "role": "collector", "aggregator": "none"}
    old = coordinated_job(coordinated={"replicas": [*REPLICAS, bad]})
    assert messages(old) != []
    assert validate_update(old, coordinated_job(coordinated={"replicas": [bad]})) == []
    renamed = {**bad, "name": "job-collector-bcdfh"}
    [error] = validate_update(old, coordinated_job(coordinated={"replicas": [renamed]}))
    assert error.path == "spec.coordinated.replicas[0].aggregator"


def test_a_coordinated_job_cannot_become_one_with_tasks() -> None:
    tasks = {"metadata": {"name": "job"}, "spec": {"tasks": [{"type": "learner"}]}}
    assert [each.path for each in validate_update(coordinated_job(), tasks)][:1] == [
        "spec.coordinated"
    ]


@pytest.mark.parametrize(("given", "wanted"), [("ALL", "All"), ("", "Running")])
def test_old_spellings_of_the_clean_up_policy_are_replaced(given: str, wanted: str) -> None:
    patch = defaults_patch(coordinated_job(cleanPodPolicy=given))
    assert {"op": "add", "path": "/spec/cleanPodPolicy", "value": wanted} in patch
    tasks = {"spec": {"tasks": [], "cleanPodPolicy": given}}
    assert "/spec/cleanPodPolicy" not in [each["path"] for each in defaults_patch(tasks)]


def test_a_pod_name_names_its_coordinated_job() -> None:
    assert job_of(coordinator_name("a-b")) == "a-b"
    assert job_of(replica_name("a-b", Role.AGGREGATOR, "bcdfg")) == "a-b"
    for other in ("a", "coordinator", "-coordinator", "a-collector-bcdfg", "a-aggregator-bcdf", ""):
        assert job_of(other) is None
    assert len(replica_name("a" * LONGEST_JOB_NAME, Role.DDP_LEARNER, "bcdfg")) == 63


def test_the_port_is_di_port_of_the_main_container() -> None:
    def ports(container: str, name: str) -> dict[str, Any]:
        return {
            "spec": {
                "containers": [{"name": container, "ports": [{"name": name, "containerPort": 80}]}]
            }
        }

    assert port_of(ports("di-container", "di-port"), Role.LEARNER) == 80
    assert port_of(ports("di-container", "http"), Role.LEARNER) == 22271
    assert port_of(ports("other", "di-port"), Role.AGGREGATOR) == 22272
    assert port_of(None, Role.COORDINATOR) == 22273
    assert address("a-collector-bcdfg", "ns", 22270) == "a-collector-bcdfg.ns:22270"


@pytest.mark.proves("dijob.md#how-large-a-job-may-be/replicas-of-a-coordinator")
def test_a_coordinator_may_have_as_many_replicas_as_the_bound() -> None:
    many = [{**REPLICAS[0], "name": f"a{number}"} for number in range(MAX_REPLICAS + 1)]
    assert not any("at most" in each for each in complaints(many[:-1]))
    assert any(f"must hold at most {MAX_REPLICAS}" in each for each in complaints(many))


def complaints(replicas: list[Any]) -> list[str]:
    body = coordinated_job(coordinated={"replicas": replicas})
    return [str(error) for error in validate_job(body)]
