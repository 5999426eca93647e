"""A group of three members by JAX stays whole whatever befalls one of them, ten times each."""

from __future__ import annotations

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import load_image
from tests.e2e.kubectl import Kubectl
from tests.e2e.whole_groups import EVENTS, JAX, WholeGroup, members_only

JOBS, TIMES_EACH = 5, 2


@pytest.mark.parametrize("event", EVENTS)
def test_a_group_of_jax_stays_whole(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str, event: str
) -> None:
    group = WholeGroup(
        kubectl, namespace, image=load_image(cluster, "jax"), program=JAX, framework="jax"
    )
    _befall(kubectl, namespace, group, event)


def _befall(kubectl: Kubectl, namespace: str, group: WholeGroup, event: str) -> None:
    with members_only(kubectl, namespace):
        for _ in range(JOBS):
            group.start()
            for _ in range(TIMES_EACH):
                group.befall(event)
            group.remove()
