"""A JAX program over two pods, by the environment alone."""

from __future__ import annotations

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl


@pytest.mark.proves(
    "process-groups.md#try-it/make-demo-example-jax",
    "process-groups.md#try-it/make-test-all-lane-frameworks",
)
def test_two_processes_add_up(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str
) -> None:
    kubectl.apply(job_of("jax", image=load_image(cluster, "jax"), namespace=namespace))
    wait_for_end(kubectl, "jax", namespace=namespace)
    assert kubectl.phase("jax", namespace=namespace) == "Succeeded"
    for index in range(2):
        said = kubectl.logs(f"jax-learner-{index}", namespace=namespace)
        assert f"process {index} of 2, 2 devices in all, sum 3.0" in said
