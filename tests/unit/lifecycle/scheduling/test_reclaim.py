"""Labels and annotations of a job's objects that users changed: they are restored."""

from __future__ import annotations

from typing import Any

import pytest

from di_api import names
from di_operator.lifecycle.vocabulary.actions import Reclaim
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task

POD = "x-collector-1"


def edit(cluster: ClusterModel, name: str, field: str, **changes: str | None) -> None:
    """A user edits labels or annotations, named without their prefix; None takes one away."""
    marks = cluster.objects["Pod", name]["metadata"][field]
    for key, value in changes.items():
        marks.pop(f"diengine/{key.replace('_', '-')}", None)
        if value is not None:
            marks[f"diengine/{key.replace('_', '-')}"] = value


def actions(cluster: ClusterModel) -> list[Any]:
    return list(cluster.decide().actions)


def test_a_job_whose_objects_are_as_they_were_made_gets_nothing() -> None:
    assert actions(running()) == []


@pytest.mark.proves(
    "lifecycle.md#edited-by-hand/diengine-job-diengine-task-name-pod-name",
    "lifecycle.md#edited-by-hand/diengine-operator-of-a-service-or",
)
@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("labels", {"job": None}),
        ("labels", {"job": "other", "operator": None}),
        ("labels", {"task_name": "learner"}),
        ("annotations", {"rank": None}),
        ("annotations", {"rank": "0"}),
    ],
)
def test_marks_are_put_back_and_nothing_is_counted(
    field: str, changes: dict[str, str | None]
) -> None:
    cluster = running()
    before = {**cluster.pods[POD]["metadata"][field]}
    edit(cluster, POD, field, **changes)
    (action,) = actions(cluster)
    assert isinstance(action, Reclaim)
    status = dict(cluster.status)
    cluster.settle()
    assert (cluster.pods[POD]["metadata"][field], cluster.status) == (before, status)
    (event,) = [e for e in cluster.events if e.reason == "MetadataRestored"]
    assert event.type == "Warning"
    assert POD in event.message


def test_many_edits_give_one_event() -> None:
    cluster = running()
    for name in cluster.pods:
        edit(cluster, name, "labels", job=None)
    cluster.settle()
    (event,) = [e for e in cluster.events if e.reason == "MetadataRestored"]
    assert "and 3 more objects" in event.message


@pytest.mark.proves("lifecycle.md#edited-by-hand/diengine-rank-of-a-pod")
def test_a_new_pod_meets_the_rank_that_an_edited_one_really_has() -> None:
    cluster = running()
    edit(cluster, "x-collector-0", "annotations", rank="9")
    cluster.scale("collector", 4).settle()
    ranks = [p["metadata"]["annotations"][names.ANNOTATION_RANK] for p in cluster.pods.values()]
    assert sorted(ranks) == ["0", "1", "2", "3", "4"]
    nodes = cluster.env("x-collector-3")["DI_NODES"].split(",")
    assert [node.partition(".")[0] for node in nodes] == sorted(
        cluster.pods, key=lambda name: (name[2] != "l", name)
    )


@pytest.mark.proves("lifecycle.md#edited-by-hand/diengine-rank-of-a-pod")
def test_a_template_that_sets_the_rank_itself_is_not_believed() -> None:
    own = task("collector", 3)
    container = own["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "DI_RANK", "value": "0"}]
    cluster = running(own)
    assert actions(cluster) == []
    edit(cluster, POD, "annotations", rank="7")
    assert actions(cluster) == []


def test_a_pod_that_is_ending_is_left_as_it_is() -> None:
    cluster = running()
    edit(cluster, POD, "labels", job=None)
    cluster.delete_pod(POD).settle()
    assert not any(write.startswith("reclaim") for write in cluster.writes)


def test_whatever_else_is_to_be_done_comes_first() -> None:
    cluster = running()
    edit(cluster, POD, "labels", job=None)
    cluster.fail("x-collector-0").settle()
    reclaimed = cluster.writes.index(f"reclaim Pod {POD}")
    assert reclaimed > cluster.writes.index("create Pod x-collector-0", 5)


def test_metadata_of_a_finished_job_is_not_restored() -> None:
    cluster = ClusterModel(job(task("work"), cleanPodPolicy="None")).settle().succeed()
    cluster.settle()
    edit(cluster, "x-work-0", "labels", job=None)
    assert actions(cluster) == []
