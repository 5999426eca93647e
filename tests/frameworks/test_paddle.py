"""Trainers of PaddlePaddle in two pods add up, by the environment alone."""

from __future__ import annotations

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl


@pytest.mark.proves("process-groups.md#try-it/make-demo-example-paddle")
def test_two_trainers_of_paddle_add_up(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str
) -> None:
    kubectl.apply(job_of("paddle", image=load_image(cluster, "paddle"), namespace=namespace))
    wait_for_end(kubectl, "paddle", namespace=namespace)
    assert kubectl.phase("paddle", namespace=namespace) == "Succeeded"
    for index in range(2):
        said = kubectl.logs(f"paddle-learner-{index}", namespace=namespace)
        assert f"trainer {index} of 2, sum 3.0" in said
