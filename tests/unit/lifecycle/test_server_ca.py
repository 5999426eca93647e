"""Running pods learn of the authorities to know di-server by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from di_operator.lifecycle import server_ca
from di_operator.lifecycle.actions import Reclaim
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running
from tests.unit.lifecycle.test_coordinated import running as running_coordinated

KEY = "diengine/server-ca"


def tell(cluster: ClusterModel, authorities: str | None) -> None:
    cluster.settings = replace(cluster.settings, server_ca=authorities)


def made_with(authorities: str | None) -> ClusterModel:
    cluster = ClusterModel(job())
    tell(cluster, authorities)
    cluster.settle()
    cluster.run()
    cluster.settle()
    return cluster


def told(cluster: ClusterModel) -> list[str | None]:
    """What each pod has been told."""
    return [pod["metadata"]["annotations"].get(KEY) for pod in cluster.pods.values()]


def test_pods_are_told_once_when_the_authorities_change_and_no_event_says_so() -> None:
    cluster = made_with("old")
    assert told(cluster) == ["old"] * 4
    uids = {pod["metadata"]["uid"] for pod in cluster.pods.values()}
    cluster.events.clear()
    tell(cluster, "new")
    actions = cluster.decide().actions
    assert {type(action) for action in actions} == {Reclaim}
    assert len(actions) == 4
    cluster.settle()
    assert told(cluster) == ["new"] * 4
    assert {pod["metadata"]["uid"] for pod in cluster.pods.values()} == uids
    assert (cluster.decide().actions, cluster.events) == ((), [])


def test_many_pods_are_told_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = made_with("old")
    tell(cluster, "new")
    monkeypatch.setattr(server_ca, "AT_ONCE", 3)
    assert len(cluster.decide().actions) == 3
    cluster.settle()
    assert told(cluster) == ["new"] * 4


def test_pods_made_before_the_authorities_were_known_are_told_later() -> None:
    cluster = made_with("")
    assert told(cluster) == [""] * 4
    tell(cluster, "new")
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


def test_pods_of_a_job_with_a_coordinator_have_nothing_to_be_told() -> None:
    cluster = running_coordinated()
    tell(cluster, "new")
    cluster.settle()
    assert set(told(cluster)) == {None}


def test_a_job_whose_spec_cannot_be_read_goes_on_with_the_new_ones() -> None:
    cluster = made_with("old")
    cluster.edit(cleanPodPolicy="Archive")
    cluster.settle()
    tell(cluster, "new")
    cluster.settle()
    assert told(cluster) == ["new"] * 4


def test_pods_that_have_ended_need_no_news() -> None:
    cluster = made_with("old")
    cluster.succeed("x-collector-0")
    cluster.settle()
    tell(cluster, "new")
    cluster.settle()
    assert sorted(str(each) for each in told(cluster)) == ["new", "new", "new", "old"]
