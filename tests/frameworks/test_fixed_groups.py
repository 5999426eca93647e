"""A group of three members by JAX stays whole whatever befalls one of them, twice;
`tools.faults.whole_groups` does it ten times.
"""

from __future__ import annotations

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import load_image
from tests.e2e.kubectl import Kubectl
from tests.e2e.whole_groups import EVENTS, JAX, WholeGroup, members_only


@pytest.mark.parametrize("event", EVENTS)
def test_a_group_of_jax_stays_whole(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str, event: str
) -> None:
    group = WholeGroup(
        kubectl, namespace, image=load_image(cluster, "jax"), program=JAX, framework="jax"
    )
    with members_only(kubectl, namespace):
        group.start()
        for _ in range(2):
            group.befall(event)
        group.remove()
