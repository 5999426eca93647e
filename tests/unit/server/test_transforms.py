"""What is kept of an object is all that is read of it."""

from __future__ import annotations

from typing import Any

import pytest

from di_api.names import ANNOTATION_IDEMPOTENCY, DI_CONTAINER
from di_api.ownership import controller_uid
from di_api.spec import Role
from di_server.jobs.addresses import addresses
from di_server.jobs.groups import described
from di_server.jobs.idempotency import IdempotencyKey
from di_server.jobs.scaling import ScalingRequest, decide
from di_server.model.job import Job
from di_server.model.pod import has_ended, is_leaving
from di_server.problems import OutOfBounds
from di_server.storage.transforms import (
    transform_config,
    transform_job,
    transform_node,
    transform_pod,
)
from tests.unit.server.fakes import Object, coordinated, job, pod, replica, task, template

_PORTS = [{"name": "di-port", "containerPort": 4000}]


def _with_ballast(spec: Object) -> Object:
    spec["containers"][0]["env"] = [{"name": "BALLAST", "value": "x"}]
    spec["containers"].append({"name": "sidecar", "image": "BALLAST"})
    return spec


def _no_ballast(transformed: Object) -> bool:
    return "BALLAST" not in str(transformed)


def test_a_cached_coordinated_job_has_replicas_ports_and_state() -> None:
    whole = coordinated(replica("c1", resources={"cpu": "1"}), suspend=True, phase="Failed")
    roles = whole["spec"]["coordinated"]
    roles["collector"]["template"] = template(4000)
    for role in ("coordinator", "collector"):
        _with_ballast(roles[role]["template"]["spec"])
    del roles["learner"]
    whole["metadata"]["managedFields"] = ["BALLAST"]
    transformed = transform_job(whole)
    assert _no_ballast(transformed)
    for found in map(Job, (whole, transformed, transform_job(transformed))):
        assert found.has_coordinator
        assert found.suspended
        assert found.has_ended
        assert found.ports[Role.COLLECTOR] == 4000
        assert (found.has_template(Role.COLLECTOR), found.has_template(Role.LEARNER)) == (
            True,
            False,
        )
        assert [each.dump() for each in found.replicas] == [
            {"name": "c1", "role": "collector", "resources": {"cpu": "1"}}
        ]


def test_a_cached_job_is_scaled_as_the_whole_one() -> None:
    whole = job(tasks=[task("learner", 1), task("collector", 2, minReplicas=1, maxReplicas=3)])
    whole["spec"]["tasks"][1]["template"] = {"spec": "BALLAST"}
    whole["metadata"]["annotations"] = {"note": "BALLAST", ANNOTATION_IDEMPOTENCY: "[]"}
    assert _no_ballast(transform_job(whole))
    key = IdempotencyKey("key", "request")
    for change in (
        ScalingRequest(1),
        ScalingRequest(-1, "collector"),
        ScalingRequest(1, "learner"),
    ):
        assert decide(transform_job(whole), change, key) == decide(whole, change, key)
        for past in (2, -2):
            with pytest.raises(OutOfBounds):
                decide(transform_job(whole), ScalingRequest(past, "collector"), None)


def test_a_cached_process_group_is_described_as_the_whole_one() -> None:
    group = {"elastic": True, "processesPerReplica": 2}
    whole = job(tasks=[task("learner", 2, processGroup=group)])
    formed = {"generation": 1, "state": "Formed", "members": {"0": "u"}}
    whole["status"] |= {"groups": {"learner": formed}, "failures": ["BALLAST"]}
    assert _no_ballast(transform_job(whole))
    told = described(whole, "learner", "svc")
    assert told["worldSize"] == 2
    assert described(transform_job(whole), "learner", "svc") == told


def test_cached_pods_configs_and_nodes_have_addresses_and_gpus() -> None:
    made = pod("p", 0, "10.0.0.1", ports=_PORTS, hostNetwork=True)
    _with_ballast(made["spec"])
    transformed: Any = transform_pod(made)
    assert _no_ballast(transformed)
    assert controller_uid(transformed) == "uid-1"
    assert transformed["spec"]["hostNetwork"] is True
    assert addresses(transform_job(job()), [transformed]) == addresses(job(), [made])
    assert addresses(job(), [transformed])[0] == "10.0.0.1:4000"

    config = {
        "metadata": {"name": "c", "namespace": "n"},
        "spec": {"aggregator": {"template": {"spec": _with_ballast(template(5000)["spec"])}}},
    }
    assert _no_ballast(transform_config(config))
    node = {
        "metadata": {"name": "n", "labels": {"BALLAST": "x"}},
        "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "BALLAST"}, "images": ["BALLAST"]},
    }
    assert transform_node(node)["status"] == {"allocatable": {"nvidia.com/gpu": "8"}}
    assert _no_ballast(transform_node(node))


def test_objects_without_spec_or_status_are_cached() -> None:
    bare = {"metadata": {"name": "x", "namespace": "rl"}}
    rests: list[Object] = [{}, {"spec": {}, "status": {}}, {"spec": None, "status": None}]
    for transform in (transform_job, transform_pod, transform_config, transform_node):
        for rest in rests:
            assert transform({**bare, **rest})["metadata"].items() >= bare["metadata"].items()


@pytest.mark.parametrize(
    "template",
    [
        "x",
        {"spec": []},
        {"spec": {"containers": "x"}},
        {"spec": {"containers": [None, {"ports": 1}]}},
        {"spec": {"containers": [{"name": "di-container", "ports": ["x"]}]}},
    ],
)
def test_a_template_of_any_shape_names_no_port(template: Any) -> None:
    whole = coordinated()
    whole["spec"]["coordinated"]["collector"] = {"template": template}
    assert Job(transform_job(whole)).ports[Role.COLLECTOR] == 22270


def test_a_pod_whose_program_has_ended_is_leaving_and_keeps_its_address() -> None:
    made = pod("p", 0, "10.0.0.1")
    containers = [{"name": "s"}, {"name": DI_CONTAINER}]
    made["spec"] |= {"restartPolicy": "Never", "containers": containers}
    ended = {"name": DI_CONTAINER, "state": {"terminated": {"exitCode": 0}}}
    made["status"]["containerStatuses"] = [{"name": "s", "state": {"running": {}}}]
    assert not is_leaving(transform_pod(made))
    made["status"]["containerStatuses"].append(ended)
    kept = transform_pod(made)
    assert (is_leaving(kept), has_ended(kept)) == (True, False)
