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
from di_api.spec import Replica, Role
from di_api.validation import load_leniently, validate_job, validate_update
from tests.unit.api.jobs import template

Job = dict[str, Any]


def coordinated_job(name: str = "job", **spec: Any) -> Job:
    coordinated = {
        "coordinator": {"template": template()},
        "collector": {"template": template()},
        "learner": {"template": template()},
    }
    return {
        "metadata": {"name": name},
        "spec": {**spec, "coordinated": {**coordinated, **spec.get("coordinated", {})}},
    }


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


def test_a_good_job_is_taken_and_read() -> None:
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


def test_an_entry_is_read_as_it_was_written() -> None:
    assert [Replica.read(entry).dump() for entry in REPLICAS] == REPLICAS


BAD = {
    "tasks too": (
        coordinated_job(tasks=[{"type": "learner", "template": template()}]),
        "spec.tasks: a list of 1: a job has tasks or a coordinator, not both",
    ),
    "preemptible": (
        coordinated_job(preemptible=True),
        "spec.preemptible: true: the allocator shares nodes among tasks only",
    ),
    "a gang of another scheduler": (
        coordinated_job(scheduling={"gangScheduler": "volcano"}),
        'spec.scheduling.gangScheduler: "volcano": the pods of a coordinator come one by one',
    ),
    "a gang": (
        coordinated_job(scheduling={"gang": True}),
        "spec.scheduling.gang: true: the pods of a coordinator come one by one",
    ),
    "no coordinator": (
        {"metadata": {"name": "job"}, "spec": {"coordinated": {}}},
        "spec.coordinated.coordinator: is required",
    ),
    "a misspelt role": (
        coordinated_job(coordinated={"colector": {}}),
        "spec.coordinated.colector: {}: unknown field; did you mean collector?",
    ),
    "a template without containers": (
        coordinated_job(coordinated={"learner": {"template": {"spec": {}}}}),
        "spec.coordinated.learner.template.spec.containers: must hold at least one container",
    ),
    "an unknown role of a replica": (
        coordinated_job(coordinated={"replicas": [{"name": "a", "role": "coordinator"}]}),
        'spec.coordinated.replicas[0].role: "coordinator": must be one of collector, learner, '
        "ddp-learner, aggregator",
    ),
    "a replica twice": (
        coordinated_job(coordinated={"replicas": [{"name": "a", "role": "collector"}] * 2}),
        'spec.coordinated.replicas[1].name: "a": is the name of another replica already',
    ),
    "resources that are no quantities": (
        coordinated_job(
            coordinated={
                "replicas": [{"name": "a", "role": "learner", "resources": {"cpu": "much"}}]
            }
        ),
        "spec.coordinated.replicas[0].resources: an object: cpu must be a quantity, "
        "such as 2, 500m or 1.5Gi",
    ),
    "a ddp learner on its own": (
        coordinated_job(coordinated={"replicas": [{"name": "a", "role": "ddp-learner"}]}),
        "spec.coordinated.replicas[0].aggregator: must be the name of an aggregator among the "
        "replicas",
    ),
    "a collector behind an aggregator": (
        coordinated_job(
            coordinated={"replicas": [{"name": "a", "role": "collector", "aggregator": "b"}]}
        ),
        'spec.coordinated.replicas[0].aggregator: "b": only a ddp-learner has one',
    ),
    "a reserved label": (
        coordinated_job(
            coordinated={
                "collector": {
                    "template": {**template(), "metadata": {"labels": {"diengine/pod": "x"}}}
                }
            }
        ),
        'spec.coordinated.collector.template.metadata.labels["diengine/pod"]: "x": is written by '
        "the operator for each pod; leave it out",
    ),
    "a name that begins with a digit": (
        coordinated_job("1st"),
        'metadata.name: "1st": must begin with a letter: each pod has a Service of its own name',
    ),
    "a name that is too long": (
        coordinated_job("a" * 46),
        f'metadata.name: "{"a" * 46}": 46 characters are too many, its pod '
        "<name>-ddp-learner-xxxxx may have 63; the longest name that fits has 45, such as "
        f'"{"a" * 45}"',
    ),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_a_bad_job_is_refused_with_the_field(bad: Job, message: str) -> None:
    assert messages(bad) == [message]


def test_only_the_replicas_may_change() -> None:
    old = coordinated_job()
    assert validate_update(old, coordinated_job(coordinated={"replicas": REPLICAS})) == []
    other = template()
    other["spec"]["containers"][0]["image"] = "other"
    changed = coordinated_job(coordinated={"collector": {"template": other}})
    [error] = validate_update(old, changed)
    assert error.path == "spec.coordinated.collector.template.spec.containers[0].image"


def test_a_replica_that_was_wrong_already_keeps_no_other_from_going() -> None:
    bad = {"name": "job-collector-bcdfg", "role": "collector", "aggregator": "none"}
    old = coordinated_job(coordinated={"replicas": [*REPLICAS, bad]})
    assert messages(old) != []
    assert validate_update(old, coordinated_job(coordinated={"replicas": [bad]})) == []
    renamed = {**bad, "name": "job-collector-bcdfh"}
    [error] = validate_update(old, coordinated_job(coordinated={"replicas": [renamed]}))
    assert error.path == "spec.coordinated.replicas[0].aggregator"


def test_a_job_cannot_turn_into_one_of_the_other_kind() -> None:
    tasks = {"metadata": {"name": "job"}, "spec": {"tasks": [{"type": "learner"}]}}
    assert [each.path for each in validate_update(coordinated_job(), tasks)][:1] == [
        "spec.coordinated"
    ]


@pytest.mark.parametrize(("given", "wanted"), [("ALL", "All"), ("", "Running")])
def test_an_old_spelling_is_mended(given: str, wanted: str) -> None:
    patch = defaults_patch(coordinated_job(cleanPodPolicy=given))
    assert {"op": "add", "path": "/spec/cleanPodPolicy", "value": wanted} in patch
    tasks = {"spec": {"tasks": [], "cleanPodPolicy": given}}
    assert "/spec/cleanPodPolicy" not in [each["path"] for each in defaults_patch(tasks)]


def test_names_lead_back_to_the_job() -> None:
    assert job_of(coordinator_name("a-b")) == "a-b"
    assert job_of(replica_name("a-b", Role.AGGREGATOR, "bcdfg")) == "a-b"
    for other in ("a", "coordinator", "-coordinator", "a-collector-bcdfg", "a-aggregator-bcdf", ""):
        assert job_of(other) is None
    assert len(replica_name("a" * LONGEST_JOB_NAME, Role.DDP_LEARNER, "bcdfg")) == 63


def test_the_port_is_the_one_named_on_the_main_container() -> None:
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
