"""Running pods learn of the authorities to know di-server by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from di_operator.lifecycle.policies import server_ca
from di_operator.lifecycle.vocabulary.actions import Reclaim
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running
from tests.unit.lifecycle.test_coordinated import running as running_coordinated

KEY = "diengine/server-ca"


def tell(cluster: ClusterModel, authorities: str | None) -> None:
    cluster.settings = replace(cluster.settings, server_ca=authorities)


def made_with(authorities: str | None) -> ClusterModel:
    cluster = ClusterModel(job())
    tell(cluster, authorities)
    cluster.settle()
    return cluster.run().settle()


def told(cluster: ClusterModel) -> list[str | None]:
    """What each pod has been told."""
    return [pod["metadata"]["annotations"].get(KEY) for pod in cluster.pods.values()]


@pytest.mark.proves("lifecycle.md#edited-by-hand/diengine-server-ca-of-a-pod")
def test_changed_authorities_reach_pods_once_and_without_an_event() -> None:
    cluster = made_with("old")
    assert told(cluster) == ["old"] * 4
    uids = set(cluster.uids.values())
    cluster.events.clear()
    tell(cluster, "new")
    actions = cluster.decide().actions
    assert ({type(action) for action in actions}, len(actions)) == ({Reclaim}, 4)
    cluster.settle()
    assert (told(cluster), set(cluster.uids.values())) == (["new"] * 4, uids)
    assert (cluster.decide().actions, cluster.events) == ((), [])


def test_many_pods_get_first_authorities_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = made_with("")
    assert told(cluster) == [""] * 4
    tell(cluster, "new")
    monkeypatch.setattr(server_ca, "AT_ONCE", 3)
    assert len(cluster.decide().actions) == 3
    cluster.settle()
    assert told(cluster) == ["new"] * 4


def test_what_is_not_known_takes_nothing_away() -> None:
    cluster = made_with("old")
    for unknown in ("", None):
        tell(cluster, unknown)
        assert cluster.decide().actions == ()


def test_pods_of_an_earlier_version_are_left_as_they_are() -> None:
    cluster = running()
    assert told(cluster) == [None] * 4
    tell(cluster, "new")
    assert cluster.decide().actions == ()


def test_pods_of_a_coordinated_job_get_no_authorities() -> None:
    cluster = running_coordinated()
    tell(cluster, "new")
    cluster.settle()
    assert set(told(cluster)) == {None}


def test_a_job_whose_spec_cannot_be_read_goes_on_with_the_new_ones() -> None:
    cluster = made_with("old").edit(cleanPodPolicy="Archive").settle()
    tell(cluster, "new")
    cluster.settle()
    assert told(cluster) == ["new"] * 4


def test_ended_pods_get_no_new_authorities() -> None:
    cluster = made_with("old").succeed("x-collector-0").settle()
    tell(cluster, "new")
    cluster.settle()
    assert sorted(str(each) for each in told(cluster)) == ["new", "new", "new", "old"]
