"""Processes of OpenMPI in two pods add up: the image has ssh and MPI, and no keys or host files."""

from __future__ import annotations

import re

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl


@pytest.mark.proves("process-groups.md#try-it/make-demo-example-mpi")
def test_processes_of_mpi_in_two_pods_add_up(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str
) -> None:
    kubectl.apply(job_of("mpi", image=load_image(cluster, "mpi"), namespace=namespace))
    wait_for_end(kubectl, "mpi", namespace=namespace)
    said = kubectl.logs("mpi-learner-0", namespace=namespace)
    assert kubectl.phase("mpi", namespace=namespace) == "Succeeded", said
    found = re.findall(r"process (\d) of 4 in pod (\d), sum 10", said)
    assert sorted(found) == [("0", "0"), ("1", "0"), ("2", "1"), ("3", "1")], said
