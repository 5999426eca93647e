"""What pods get for their artifacts, through the decisions that make them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, job, task
from tests.unit.lifecycle.test_coordinated import coordinated

RESULTS = {"name": "results", "path": "/results", "persistentVolumeClaim": "kept"}
NFS = {"name": "disk", "nfs": {"server": "files", "path": "/a"}}


def made(*artifacts: dict[str, Any], **spec: Any) -> ClusterModel:
    """A settled job of a learner, whose pod spec is given, and two collectors."""
    containers = [{"name": "di-container", "image": "train:1"}]
    volumes = spec.pop("volumes", [])
    template = {"spec": {"containers": containers, **spec}}
    tasks = (task("learner", template=template), task("collector", 2))
    return ClusterModel(job(*tasks, artifacts=list(artifacts), volumes=volumes)).settle()


def mounts(cluster: ClusterModel, pod: str) -> dict[str, tuple[str, str]]:
    """Volume and folder by the path in the pod."""
    (container,) = cluster.pods[pod]["spec"]["containers"]
    found = container.get("volumeMounts", ())
    return {each["mountPath"]: (each["name"], each["subPath"]) for each in found}


@pytest.mark.proves(
    "dijob.md#spec/name",
    "dijob.md#spec/path",
    "dijob.md#spec/persistentvolumeclaim",
)
def test_each_pod_has_a_folder_of_its_own_on_the_claim() -> None:
    cluster = made(RESULTS, initContainers=[{"name": "fetch", "image": "fetch:1"}])
    uid = cluster.job["metadata"]["uid"]
    for pod in ("x-learner-0", "x-collector-0", "x-collector-1"):
        folder = f"di-artifacts/x.{uid}/results/{pod}"
        assert mounts(cluster, pod) == {"/results": ("di-artifacts-0", folder)}
        assert cluster.env(pod)["DI_ARTIFACTS_DIR"] == "/results"
        source = {"persistentVolumeClaim": {"claimName": "kept"}}
        assert cluster.pods[pod]["spec"]["volumes"] == [{"name": "di-artifacts-0", **source}]
    (init,) = cluster.pods["x-learner-0"]["spec"]["initContainers"]
    assert [each["mountPath"] for each in init["volumeMounts"]] == ["/results"]


@pytest.mark.proves("dijob.md#spec/tasks-list-of-task-names-up-to-64-2", "dijob.md#spec/volume")
def test_a_task_has_the_artifacts_that_name_it_in_the_order_of_the_list() -> None:
    on_disk = {"name": "disk", "path": "/disk", "volume": "disk", "tasks": ["collector"]}
    other = {**RESULTS, "name": "other", "path": "/other"}
    cluster = made(on_disk, {**RESULTS, "tasks": ["learner"]}, other, volumes=[NFS])
    assert [*mounts(cluster, "x-learner-0")] == ["/results", "/other"]
    assert [*mounts(cluster, "x-collector-1")] == ["/disk", "/other"]
    assert mounts(cluster, "x-collector-1")["/disk"][0] == "disk"
    assert cluster.env("x-learner-0")["DI_ARTIFACTS_DIR"] == "/results"
    assert cluster.env("x-collector-0")["DI_ARTIFACTS_DIR"] == "/disk"
    # Both artifacts of the learner are on one claim.
    assert len(cluster.pods["x-learner-0"]["spec"]["volumes"]) == 2


def test_a_claim_that_the_pod_has_is_not_added_again() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "kept"}}
    cluster = made(RESULTS, volumes=[{"name": "mine", **claim}])
    assert mounts(cluster, "x-learner-0")["/results"][0] == "mine"
    assert len(cluster.pods["x-learner-0"]["spec"]["volumes"]) == 1
    read_only = {"persistentVolumeClaim": {"claimName": "kept", "readOnly": True}}
    cluster = made(RESULTS, volumes=[{"name": "mine", **read_only}])
    assert mounts(cluster, "x-learner-0")["/results"][0] == "di-artifacts-0"


def test_pods_of_a_coordinated_job_have_artifacts_too() -> None:
    cluster = coordinated()
    cluster.job["spec"]["artifacts"] = [RESULTS]
    cluster.settle()
    assert "/results" in mounts(cluster, "x-coordinator")


def test_a_replaced_pod_finds_the_files_of_the_one_before() -> None:
    cluster = made(RESULTS).run("x-learner-0", "x-collector-0", "x-collector-1").settle()
    before = mounts(cluster, "x-learner-0")
    cluster.fail("x-learner-0", code=1)
    cluster.settle()
    assert mounts(cluster, "x-learner-0") == before
