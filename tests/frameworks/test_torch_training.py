"""A training of two processes of torchrun loses no saved step; `tools.faults` does it ten times."""

from __future__ import annotations

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import load_image
from tests.e2e.kubectl import Kubectl
from tests.e2e.torch_training import TorchTraining


@pytest.mark.usefixtures("release")
@pytest.mark.parametrize("pods", [1, 2])
def test_a_killed_and_suspended_training_loses_no_saved_step(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str, pods: int
) -> None:
    image = load_image(cluster, "torch-ddp")
    training = TorchTraining(kubectl, namespace, name="torch", image=image, pods=pods)
    with training.running():
        assert training.wait_for_steps() == 0
        training.befall(0)
