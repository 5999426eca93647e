"""A Ray cluster as a job: its program plays on all workers, which come and go while it runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl
from tests.e2e.lifecycle.test_scaling import rest
from tests.e2e.pods import wait_for_pods
from tests.waiting import TRAINING_SECONDS, wait_until

HEAD = "ray-head-0"
ROUND = re.compile(r"round (\d+): mean return (\d+), played by (\d+) nodes")


@pytest.fixture(scope="module")
def image(cluster: Cluster | CurrentCluster) -> str:
    """The example's image, on every node."""
    return load_image(cluster, "ray")


@pytest.fixture
def manifest(image: str, namespace: str) -> dict[str, Any]:
    """The example's job with the image of this machine."""
    return job_of("ray", image=image, namespace=namespace)


def test_a_program_of_ray_learns_and_ends_its_cluster(
    kubectl: Kubectl, manifest: dict[str, Any], namespace: str
) -> None:
    kubectl.apply(manifest)
    wait_for_end(kubectl, "ray", namespace=namespace)
    said = kubectl.logs(HEAD, namespace=namespace)
    assert kubectl.phase("ray", namespace=namespace) == "Succeeded", said
    (best,) = re.findall(r"result: best mean return (\d+)", said)
    first = int(ROUND.findall(said)[0][1])
    assert int(best) > 4 * first, said


@pytest.mark.proves("roles.md#ray")
def test_workers_join_and_leave(kubectl: Kubectl, manifest: dict[str, Any], namespace: str) -> None:
    head, worker = manifest["spec"]["tasks"]
    # Until the test is over.
    head["template"]["spec"]["containers"][0]["env"] = [{"name": "ROUNDS", "value": "1000000"}]
    worker["replicas"] = 1
    kubectl.apply(manifest)
    _wait_for_nodes(kubectl, namespace, 1, past=-1)
    for method, change, count in (("POST", 2, 3), ("DELETE", 1, 2)):
        last = _last_round(kubectl, namespace)
        body = {"task": "worker", "replicas": change}
        code, said = rest(kubectl, namespace, method, body, pod=HEAD)
        assert code == 200, said
        workers = (f"ray-worker-{index}" for index in range(count))
        wait_for_pods(kubectl, "ray", HEAD, *workers, namespace=namespace)
        _wait_for_nodes(kubectl, namespace, count, past=last)


def _rounds(kubectl: Kubectl, namespace: str) -> list[tuple[int, int]]:
    """Which rounds there were, and by how many nodes each was played."""
    said = kubectl.logs(HEAD, namespace=namespace)
    return [(int(number), int(nodes)) for number, _, nodes in ROUND.findall(said)]


def _last_round(kubectl: Kubectl, namespace: str) -> int:
    return _rounds(kubectl, namespace)[-1][0]


def _wait_for_nodes(kubectl: Kubectl, namespace: str, count: int, *, past: int) -> None:
    """Wait until a round past that one was played by so many nodes."""

    def played() -> bool:
        found = [nodes for number, nodes in _rounds(kubectl, namespace) if number > past]
        assert found
        assert found[-1] == count, found[-10:]
        return True

    wait_until(played, TRAINING_SECONDS, what=f"a round of {count} nodes")
