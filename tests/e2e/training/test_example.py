"""The CartPole example as its users run it: it learns, scales its own collectors, and ends."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.errors import CommandFailed
from tests.e2e.examples import EXAMPLES, SOLVED, load_image, wait_for_end, with_image
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import condition, pods_of, run_in_pod, wait_for_event
from tests.waiting import TRAINING_SECONDS, wait_until

EXAMPLE = "cartpole"
"""Two minutes on two idle cores."""
HALF_WAY = 150
"""Mean return from which on the job has learned what it would be a pity to lose."""
KILL = """
import os, pathlib, signal
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if b"di_cartpole.main" in (process / "cmdline").read_bytes().split(b"\\0"):
        os.kill(int(process.name), signal.SIGKILL)
print("{}")
"""
"""Kills the program of the pod, which is not asked."""


@pytest.fixture(scope="module")
def image(cluster: Cluster | CurrentCluster) -> str:
    """The example's image, on every node."""
    return load_image(cluster, EXAMPLE)


@pytest.fixture
def manifest(kubectl: Kubectl, image: str, namespace: str) -> Iterator[dict[str, Any]]:
    """The example's job with checkpoints and the image of this machine; its claim has a volume."""
    claim, found = yaml.safe_load_all((EXAMPLES / EXAMPLE / "checkpoint.yaml").read_text())
    claim["metadata"]["namespace"] = namespace
    # Of no class, so that it is bound to the volume that is made here.
    claim["spec"]["storageClassName"] = ""
    folder = Path("/var/tmp") / namespace
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "claimRef": {"namespace": namespace, "name": claim["metadata"]["name"]},
            "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"},
        },
    }
    job = with_image(found, image=image, namespace=namespace)
    # Process 1 of a namespace of its own could not be killed from within.
    job["spec"]["tasks"][0]["template"]["spec"]["shareProcessNamespace"] = True
    # A folder of the node belongs to root, whatever the pod's group is.
    job["spec"]["tasks"][0]["template"]["spec"]["initContainers"] = [
        {
            "name": "open",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "-c", 'chmod 777 "$DI_CHECKPOINT_DIR"'],
            "securityContext": {"runAsUser": 0},
        }
    ]
    kubectl.apply(volume)
    try:
        kubectl.apply(claim)
        yield job
    finally:
        kubectl("delete", "persistentvolume", namespace, "--wait=false")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.proves("sdk.md#in-the-examples/cartpole")
def test_the_example_trains_scales_itself_goes_on_when_its_learner_is_killed_and_succeeds(
    kubectl: Kubectl, manifest: dict[str, Any], namespace: str
) -> None:
    name = manifest["metadata"]["name"]
    learner = f"{name}-learner-0"
    kubectl.apply(manifest)
    before = _half_way(kubectl, name, namespace=namespace)
    first = pods_of(kubectl, name, namespace=namespace)[learner]
    # Who kills may be ended with what it kills.
    with suppress(CommandFailed):
        run_in_pod(kubectl, learner, KILL, namespace=namespace)

    # The learner that takes its place is told where to go on, and would have the time to save.
    def replaced() -> dict[str, Any]:
        found = kubectl.get("pod", learner, namespace=namespace)
        assert found["metadata"]["uid"] != first.uid
        return found

    second = wait_until(replaced, what="another learner")
    variables = second["spec"]["containers"][0]["env"]
    told = {each["name"]: each.get("value") for each in variables}
    assert told["DI_CHECKPOINT_DIR"] == "/checkpoint"
    assert int(told["DI_RESTORE_STEP"] or 0) >= before["checkpointStep"]
    assert second["spec"]["terminationGracePeriodSeconds"] == 30

    wait_for_end(kubectl, name, namespace=namespace)
    found = kubectl.get("dijob", name, namespace=namespace)
    status = found["status"]
    assert status["phase"] == "Succeeded", status
    assert status["restarts"] == 1
    assert "exit code 137" in condition(found, "Restarting")["message"]

    # The conditions are the history: each phase that was reached has one, the last is True. It was
    # over with its learner, by its success policy.
    reached = {entry["type"]: entry["status"] for entry in status["conditions"]}
    assert {"Starting", "Running", "Restarting", "Rescheduling", "Succeeded"} <= set(reached)
    true = {kind for kind, value in reached.items() if value == "True"}
    assert true - {"SuccessCriteriaMet"} == {"Succeeded"}

    # The learner asked for two collectors and gave them back; the operator carried it out.
    profilings = status["profilings"]
    assert [change for _, change in profilings["scaling"]] == [2, -2]
    assert status["reschedules"] == 2
    for change in ("from 2 to 4", "from 4 to 2"):
        wait_for_event(kubectl, name, f"collector {change}", namespace=namespace)
    collectors = next(task for task in found["spec"]["tasks"] if task["type"] == "collector")
    assert collectors["replicas"] == 2

    # It learned: the curve begins as chance plays and ends with the environment solved. The second
    # learner went on with the curve of the first, as it was when that was saved.
    curve = profilings["curve"]
    assert curve[0][2] < 100
    assert curve[-1][2] >= SOLVED
    kept = [point for point in curve if point[1] <= before["checkpointStep"]]
    assert kept
    assert all(point in before["curve"] for point in kept)
    assert all(later[1] >= point[1] for point, later in pairwise(curve))
    assert profilings["restoreSeconds"] > 0

    # What the pods said can be read afterwards.
    def ended() -> bool:
        # Collectors that were given back have some seconds to end.
        left = pods_of(kubectl, name, namespace=namespace)
        assert {pod.phase for pod in left.values()} == {"Succeeded"}, left
        return True

    wait_until(ended, what="every pod to have ended")
    log = kubectl.logs(learner, namespace=namespace)
    assert "going on from generation" in log
    assert "solved: mean return" in log


def _half_way(kubectl: Kubectl, job: str, *, namespace: str) -> dict[str, Any]:
    """What the job reports once it has learned something, saved it, and scaled itself up."""

    def reported() -> dict[str, Any]:
        status = kubectl.get("dijob", job, namespace=namespace).get("status", {})
        found: dict[str, Any] = status.get("profilings", {})
        assert [change for _, change in found["scaling"]] == [2]
        assert min(steps for _, steps, _ in found["curve"]) <= found["checkpointStep"]
        assert max(mean for _, _, mean in found["curve"]) >= HALF_WAY
        assert (status["phase"], status["readyReplicas"]) == ("Running", 6)
        return found

    return wait_until(reported, TRAINING_SECONDS, what="half of the training")
