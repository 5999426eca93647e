"""The GRPO example as its users run it: it learns, scales its engines, and survives losses."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.errors import CommandFailed
from tests.e2e.examples import job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl
from tests.e2e.lifecycle.test_scaling import rest
from tests.e2e.pods import events_of, pods_of, run_in_pod
from tests.waiting import wait_until

pytestmark = pytest.mark.extended

EXAMPLE = "grpo"
LEARNERS = (f"{EXAMPLE}-learner-0", f"{EXAMPLE}-learner-1")
ENGINES = (f"{EXAMPLE}-rollout-0", f"{EXAMPLE}-rollout-1")
TARGET = 0.6
"""pass@1 that ends the training, after some sixty steps; the losses come in the first ten."""
"""For each thing that is waited for; all of it takes a minute on two busy cores."""
KILL = """
import os, pathlib, signal
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if b"di_grpo.main" in (process / "cmdline").read_bytes().split(b"\\0"):
        os.kill(int(process.name), signal.SIGKILL)
print("{}")
"""
"""Kills the program of the pod, which is not asked."""


@pytest.fixture
def manifest(cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    """The example's job with the image of this machine, and two engines, which are too few."""
    found = job_of(EXAMPLE, image=load_image(cluster, EXAMPLE), namespace=namespace)
    tasks = {task.get("name", task["type"]): task for task in found["spec"]["tasks"]}
    rollout = tasks["rollout"]
    rollout["replicas"] = len(ENGINES)
    # Twice as much of a processor as in the example: one of them is still too few.
    rollout["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "120m"
    learner = tasks["learner"]["template"]["spec"]
    # Process 1 of a namespace of its own could not be killed from within.
    learner["shareProcessNamespace"] = True
    for variable in learner["containers"][0]["env"]:
        if variable["name"] == "PASS_AT_1":
            variable["value"] = str(TARGET)
    return found


@pytest.mark.proves(
    "process-groups.md#try-it/make-demo-example-grpo",
    "grpo.md#language-model-reinforcement-learning/rollout",
    "grpo.md#language-model-reinforcement-learning/evaluator",
    "grpo.md#what-is-lost-when-something-dies/an-engine",
    "grpo.md#how-many-engines",
    "sdk.md#in-the-examples/grpo",
)
def test_it_learns_scales_its_engines_and_survives_losses(
    kubectl: Kubectl, manifest: dict[str, Any], namespace: str
) -> None:
    kubectl.apply(manifest)
    _wait_for_work(kubectl, namespace, generation=1)
    before = pods_of(kubectl, EXAMPLE, namespace=namespace)

    # An engine is not wanted any more: it goes when it has brought what it had begun.
    kept, given_back = ENGINES
    body = {"names": [given_back]}
    code, said = rest(kubectl, namespace, "DELETE", body, pod=LEARNERS[1])
    assert code == 200, said
    _wait_for_departure(kubectl, namespace)

    # Another engine takes the place of one that is killed.
    kubectl(
        *("--namespace", namespace, "delete", "pod", kept),
        *("--grace-period=0", "--force", "--wait=false"),
    )
    wait_until(
        lambda: pods_of(kubectl, EXAMPLE, namespace=namespace)[kept].uid != before[kept].uid,
        what="another engine",
    )

    # The learner that computes gradients for the other one, and then that other one: each is
    # started again in its pod, and training goes on where it was.
    for killed, learner in enumerate(reversed(LEARNERS), start=1):
        # Who kills may be ended with what it kills.
        with suppress(CommandFailed):
            run_in_pod(kubectl, learner, KILL, namespace=namespace)
        _wait_for_work(kubectl, namespace, generation=1 + killed)

    wait_for_end(kubectl, EXAMPLE, namespace=namespace)
    found = kubectl.get("dijob", EXAMPLE, namespace=namespace)
    status = found["status"]
    assert status["phase"] == "Succeeded", status
    assert status["restarts"] == 2

    # Nothing was found amiss with objects that nobody touched.
    events = events_of(kubectl, EXAMPLE, namespace=namespace)
    assert not [event for event in events if event.startswith("MetadataRestored")]

    # The processes were others, the pods the same.
    after = {pod["metadata"]["name"]: pod for pod in kubectl.items("pods", namespace=namespace)}
    for learner in LEARNERS:
        assert after[learner]["metadata"]["uid"] == before[learner].uid
        (container,) = after[learner]["status"]["containerStatuses"]
        assert container["restartCount"] == 1
        assert container["lastState"]["terminated"]["exitCode"] == 137

    # It went on with what it had saved: nothing that was measured is lost, and it learned.
    series = status["profilings"]["series"]
    assert all(one[0] <= other[0] for one, other in pairwise(series["passAt1"]))
    assert series["passAt1"][0][1] < TARGET <= series["passAt1"][-1][1]
    said = kubectl.logs(LEARNERS[0], namespace=namespace)
    assert "begins with version 0," not in said
    assert "learned: pass@1" in said

    # It asked for more engines, and lost no sample of those that it had no need of.
    (rollout,) = (task for task in found["spec"]["tasks"] if task.get("name") == "rollout")
    assert rollout["replicas"] == status["profilings"]["collectors"] > 1
    assert (status["profilings"]["drained"] > 0, status["profilings"]["lost"]) == (True, 0)


def _wait_for_departure(kubectl: Kubectl, namespace: str) -> None:
    """Wait until the learner tells of an engine that has left, and of those that are there."""

    def told() -> bool:
        found = kubectl.get("dijob", EXAMPLE, namespace=namespace)["status"]["profilings"]
        assert (found["drained"] > 0, found["lost"]) == (True, 0), found
        assert found["members"], found
        for member in found["members"]:
            assert member["weightVersion"] >= 0, member
            assert member["url"].startswith(f"http://{member['pod']}."), member
        return True

    wait_until(told, what="an engine that leaves")


def _wait_for_work(kubectl: Kubectl, namespace: str, *, generation: int) -> None:
    """Wait until the learners' world of this generation has got further than the one before."""
    seen: list[int] = []

    def works() -> bool:
        status = kubectl.get("dijob", EXAMPLE, namespace=namespace)["status"]
        group = status["groups"]["learner"]
        assert (group["state"], group["generation"]) == ("Formed", generation), status
        seen.append(status["profilings"]["step"])
        assert seen[-1] > seen[0], seen
        return True

    wait_until(works, what=f"the work of generation {generation}")
