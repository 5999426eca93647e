"""The container that tells how fast a node is, and the nodes that pods are kept away from."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from di_api.spec import NodeCheck, Task, TaskType
from di_node_check import program as default_node_check
from di_operator.builders.node_check import check_container
from di_operator.builders.pinning import avoiding
from tests.unit.lifecycle.cluster_model import ClusterModel, job, task

CONTAINER = {
    "name": "di-container",
    "image": "train:1",
    "imagePullPolicy": "Always",
    "resources": {"limits": {"nvidia.com/gpu": 1}},
    "securityContext": {"runAsUser": 5},
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "command": ["train"],
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def check(node_check: NodeCheck | None, *containers: dict[str, Any]) -> dict[str, Any] | None:
    template = {"spec": {"containers": list(containers)}}
    return check_container(
        Task(name="a", type=TaskType.NONE, template=template, node_check=node_check)
    )


def test_the_check_is_as_the_first_container_but_for_what_it_runs() -> None:
    found = check(NodeCheck(), CONTAINER, {"name": "b", "image": "other"})
    assert found is not None
    program = found.pop("command")
    assert program[:2] == ["python3", "-c"]
    node = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert found.pop("env") == [
        {"name": "DI_NODE_NAME", "valueFrom": node},
        {"name": "DI_NODE_CHECK_WAIT", "value": "300"},
    ]
    assert found == {
        "name": "di-node-check",
        **{key: CONTAINER[key] for key in ("image", "imagePullPolicy", "resources")},
        "securityContext": {"runAsUser": 5},
    }


@pytest.mark.proves("dijob.md#spec-tasks/nodecheck-image", "dijob.md#spec-tasks/nodecheck-command")
def test_an_image_and_a_command_of_the_users_own() -> None:
    found = check(NodeCheck(image="check:1", command=("check", "--all")), CONTAINER)
    assert found is not None
    assert (found["image"], found["command"]) == ("check:1", ["check", "--all"])


@pytest.mark.parametrize(("given", "containers"), [(None, [CONTAINER]), (NodeCheck(), [])])
def test_without_a_check_there_is_no_container(
    given: NodeCheck | None, containers: list[dict[str, Any]]
) -> None:
    assert check(given, *containers) is None


def waits(cluster: ClusterModel) -> dict[str, str]:
    """How long the check of each pod may wait for others."""
    return {
        name: variable["value"]
        for name, pod in cluster.pods.items()
        for variable in pod["spec"]["initContainers"][0]["env"]
        if variable["name"] == "DI_NODE_CHECK_WAIT"
    }


@pytest.mark.proves("dijob.md#spec-tasks/nodecheck-waitseconds")
def test_a_pod_waits_for_the_others_unless_they_are_through_their_checks() -> None:
    cluster = ClusterModel(job(task("learner", 3, nodeCheck={"waitSeconds": 60})))
    cluster.settle()
    assert set(waits(cluster).values()) == {"60"}
    # One that is replaced while others still wait is waited for.
    cluster.delete_pod("x-learner-2", force=True).settle()
    assert waits(cluster)["x-learner-2"] == "60"

    ended = {"name": "di-node-check", "state": {"terminated": {"exitCode": 0, "message": ""}}}
    for name in ("x-learner-0", "x-learner-1"):
        cluster.pods[name]["spec"]["nodeName"] = "n1"
        cluster.pods[name]["status"]["initContainerStatuses"] = [ended]
    cluster.delete_pod("x-learner-2", force=True).settle().pass_time(60).settle()
    cluster.scale("learner", 4).settle()
    assert waits(cluster) == {
        **dict.fromkeys(("x-learner-0", "x-learner-1"), "60"),
        **dict.fromkeys(("x-learner-2", "x-learner-3"), "0"),
    }


def test_pods_of_a_restarted_task_wait_for_each_other_again() -> None:
    rules = [{"action": "RestartTask"}]
    learner = task("learner", 2, nodeCheck={})
    cluster = ClusterModel(job(learner, backoffLimit=3, failurePolicy={"rules": rules}))
    cluster.settle()
    cluster.run()
    ended = {"name": "di-node-check", "state": {"terminated": {"exitCode": 0, "message": ""}}}
    for pod in cluster.pods.values():
        pod["spec"]["nodeName"] = "n1"
        pod["status"]["initContainerStatuses"] = [ended]
    cluster.settle()
    cluster.fail("x-learner-0").settle()
    cluster.end("x-learner-1").settle()
    assert cluster.status["restartAttempts"] == {"learner": 1}
    assert waits(cluster) == {"x-learner-0": "300", "x-learner-1": "300"}


def test_the_check_is_the_first_container_and_has_the_jobs_variables() -> None:
    template = {
        "spec": {
            "containers": [CONTAINER],
            "initContainers": [{"name": "i", "image": "i:1"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        }
    }
    cluster = ClusterModel(job(task("learner", template=template, nodeCheck={})))
    cluster.settle()
    first, second = cluster.pods["x-learner-0"]["spec"]["initContainers"]
    assert (first["name"], second["name"]) == ("di-node-check", "i")
    assert {"name": "DI_RANK", "value": "0"} in first["env"]
    assert "volumeMounts" not in first


def test_the_embedded_program_is_complete(tmp_path: Path) -> None:
    found = check(NodeCheck(), CONTAINER)
    assert found is not None
    report = tmp_path / "termination-log"
    program = found["command"][2].replace("/dev/termination-log", str(report))
    # As in an image without numpy.
    blocked = "import sys; sys.modules['numpy'] = None; exec(sys.argv[1])"
    environment = {"DI_TASK_NAME": "a", "DI_TASK_RANK": "0", "DI_A_NODES": "x-a-0.di-x"}
    told = {each["name"]: each.get("value", "n1") for each in found["env"]}
    command = [sys.executable, "-I", "-c", blocked, program]
    subprocess.run(command, check=True, timeout=60, env={**environment, **told})
    said = json.loads(report.read_text())
    assert said.keys() == {"seconds"}
    assert said["seconds"] > 0


def test_the_program_runs_on_the_oldest_documented_python() -> None:
    text = Path(default_node_check.__file__).read_text()
    assert "Python 3.8" in text
    ast.parse(text, feature_version=(3, 8))


def test_with_numpy_its_product_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(default_node_check, "numpy_product", lambda: called.append("numpy"))
    monkeypatch.setattr(default_node_check, "plain_product", lambda: called.append("plain"))
    assert default_node_check.fastest_product() >= 0
    assert called == ["numpy"] * (default_node_check.PRODUCTS + 1)


def test_nodes_are_avoided_in_every_alternative_of_the_users_own() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    of_nodes = {"preferred": [], REQUIRED: {"nodeSelectorTerms": [zone, {}]}}
    kept = {"podAffinity": {"x": 1}, "nodeAffinity": of_nodes}
    found = avoiding({"affinity": kept}, ["n1", "n2"])["affinity"]
    names = [{"key": "metadata.name", "operator": "NotIn", "values": [n]} for n in ("n1", "n2")]
    assert found["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {**zone, "matchFields": names},
        {},
    ]
    assert (found["podAffinity"], found["nodeAffinity"]["preferred"]) == ({"x": 1}, [])


def test_a_pod_that_avoids_nothing_is_as_it_was() -> None:
    spec: dict[str, Any] = {"containers": []}
    assert avoiding(spec, []) == spec
    terms = avoiding(spec, ["n1"])["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}
    ]
