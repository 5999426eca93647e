"""A chief of TensorFlow trains through a parameter server and workers, by the environment alone."""

from __future__ import annotations

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl


@pytest.mark.proves("process-groups.md#try-it/make-demo-example-tensorflow")
def test_a_chief_of_tensorflow_trains_through_its_cluster(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str
) -> None:
    image = load_image(cluster, "tensorflow")
    kubectl.apply(job_of("tensorflow", image=image, namespace=namespace))
    wait_for_end(kubectl, "tensorflow", namespace=namespace)
    assert kubectl.phase("tensorflow", namespace=namespace) == "Succeeded"
    said = kubectl.logs("tensorflow-chief-0", namespace=namespace)
    assert "2 workers found the slope 3.00" in said
