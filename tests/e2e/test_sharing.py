"""Two jobs of examples/share on the real node: goodput resizes them by what they report.

Runs late: the release keeps the arguments of its allocator.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from di_cluster.builds.images import Image
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.nodes.simulated import NODE_LABEL
from di_cluster.release import Release
from examples.demo.share import ARRANGEMENTS, MOST, SLOT, SLOTS, Look, Work
from tests.e2e.examples import job_of, load_image
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import pods_of
from tests.waiting import wait_until

pytestmark = pytest.mark.extended

GOODPUT = ARRANGEMENTS["goodput"]
STEPS = 100_000
"""More than are made: how long it takes is not what is asked here."""
SAMPLE_SECONDS = "0.03"
"""A step of one learner takes two seconds. The exchange between learners, which a busy machine
makes slow, is a small part of it, so more learners are faster on any machine."""


@pytest.fixture
def image(cluster: Cluster | CurrentCluster, release: Release, images: dict[str, Image]) -> str:
    """The example's image on a cluster whose allocator is the demonstration's."""
    if isinstance(cluster, CurrentCluster):
        pytest.skip("nodes of somebody's cluster are told nothing")
    release.install(images, arguments=GOODPUT.values())
    return load_image(cluster, "share")


@pytest.fixture
def _slots(kubectl: Kubectl) -> Iterator[None]:
    """The real node has slots, as the plug-in of a device would say."""
    real = f"--selector={NODE_LABEL[0]}!={NODE_LABEL[1]}"
    (node,) = kubectl.items("nodes", real, namespace="default")
    name, key = node["metadata"]["name"], SLOT.replace("/", "~1")

    def patch(operation: str, **value: str) -> None:
        paths = (f"/status/{part}/{key}" for part in ("capacity", "allocatable"))
        patches = json.dumps([{"op": operation, "path": path, **value} for path in paths])
        status = ("--subresource=status", "--type=json", "--patch", patches)
        kubectl("patch", "node", name, *status)

    patch("add", value=str(SLOTS))
    yield
    patch("remove")


@pytest.mark.usefixtures("_slots")
def test_a_job_makes_room_for_another_and_that_one_grows_when_it_is_alone(
    kubectl: Kubectl, namespace: str, image: str
) -> None:
    manifest = job_of("share", image=image, namespace=namespace)
    container = manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"].append({"name": "SAMPLE_SECONDS", "value": SAMPLE_SECONDS})

    def begin(name: str) -> None:
        kubectl.apply(GOODPUT.job(manifest, Work(name, STEPS, 0)))

    def training(*names: str) -> dict[str, Look]:
        """The jobs once each trains, and has reported, with as many learners as it may have."""

        def looks() -> dict[str, Look]:
            return {name: _trains(kubectl, name, namespace) for name in names}

        def have_all_slots() -> dict[str, Look]:
            found = looks()
            assert sum(look.granted for look in found.values()) == SLOTS, found
            return found

        return wait_until(have_all_slots, what=f"{names} to share the slots")

    begin("early")
    alone = training("early")["early"]
    assert alone.granted == MOST
    before = pods_of(kubectl, "early", namespace=namespace)

    begin("late")
    shared = training("early", "late")
    assert all(1 <= look.granted < SLOTS for look in shared.values())
    # It goes on where it was, with the same members but for those that have gone.
    assert shared["early"].step > alone.step
    after = pods_of(kubectl, "early", namespace=namespace)
    assert {name: pod.uid for name, pod in after.items()} == {
        name: before[name].uid for name in after
    }

    kubectl("--namespace", namespace, "delete", "dijob", "early", "--wait=false")
    grown = training("late")["late"]
    assert grown.granted == MOST
    assert grown.step > shared["late"].step
    status = kubectl.get("dijob", "late", namespace=namespace)["status"]
    assert status["restarts"] == 0


def _trains(kubectl: Kubectl, name: str, namespace: str) -> Look:
    """What is seen of a job, if that many learners are there and it says so itself."""
    job: dict[str, Any] = kubectl.get("dijob", name, namespace=namespace)
    look, status = Look.of(job, 0), job.get("status") or {}
    said = status.get("profilings") or {}
    assert status.get("phase") == "Running", status
    assert look.granted == look.replicas == said.get("learners"), (look, said)
    assert look.step > 0
    return look
