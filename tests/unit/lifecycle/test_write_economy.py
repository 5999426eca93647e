"""How many writes a job costs the API server: each is paid for by every other job."""

from __future__ import annotations

import pytest

from di_kube.resources import PODS
from di_operator.builders.pod import PodRecipe
from di_operator.lifecycle.vocabulary.actions import Create
from tests.unit.lifecycle.cluster_model import ClusterModel, job, running, task


@pytest.mark.proves(
    "lifecycle.md#write-economy",
    "events.md#of-its-life/jobstarting",
    "events.md#of-its-life/jobrunning",
    "events.md#of-its-life/jobsucceeded",
)
def test_a_four_pod_job_costs_nine_writes_and_three_events() -> None:
    cluster = ClusterModel(job()).settle().run().settle().succeed().settle()
    assert cluster.writes == [
        "create Service di-x",
        "create Pod x-learner-0",
        "create Pod x-collector-0",
        "create Pod x-collector-1",
        "create Pod x-collector-2",
        "status",
        "status",
        "status",
        "delete Service di-x",
    ]
    assert cluster.phases == ["Starting", "Running", "Succeeded"]
    assert [event.reason for event in cluster.events] == [
        "JobStarting",
        "JobRunning",
        "JobSucceeded",
    ]


def test_pods_that_become_ready_one_by_one_do_not_cost_a_write_each() -> None:
    cluster = ClusterModel(job(task("learner"), task("collector", 15))).settle()
    for name in list(cluster.pods):
        cluster.run(name).reconcile()
    assert (cluster.writes.count("status"), cluster.phase) == (2, "Running")


@pytest.mark.proves("lifecycle.md#write-economy")
def test_counts_of_a_job_that_stays_as_it_is_are_written_ten_seconds_later() -> None:
    cluster = ClusterModel(job()).settle().run("x-learner-0")
    assert (cluster.reconcile().requeue_after, cluster.status["readyReplicas"]) == (10.0, 0)
    cluster.pass_time(10).reconcile()
    assert (cluster.phase, cluster.status["readyReplicas"]) == ("Starting", 1)
    assert cluster.status["taskStatus"] == {"learner": {"Running": 1}, "collector": {"Pending": 3}}


def test_the_end_of_the_last_pod_of_a_suspended_job_is_written_at_once() -> None:
    cluster = running(task("learner", 2)).edit(suspend=True).settle()
    assert cluster.status["taskStatus"] == {"learner": {"Running": 2}}
    cluster.end().reconcile()
    assert cluster.status["taskStatus"] == {"learner": {"Pending": 2}}


def test_a_clock_that_was_set_back_does_not_silence_the_counts() -> None:
    cluster = ClusterModel(job()).settle().run("x-learner-0").pass_time(-3600)
    cluster.reconcile()
    assert cluster.status["readyReplicas"] == 1


def test_sixty_four_pods_leave_fewer_than_ten_other_writes_and_events() -> None:
    cluster = running(task("learner"), task("collector", 63)).succeed().settle()
    others = [write for write in cluster.writes if "Pod" not in write]
    assert len(others) + len(cluster.events) <= 10


def test_a_decision_about_a_large_job_holds_no_body_of_a_pod() -> None:
    cluster = ClusterModel(job(task("collector", 4096)))
    actions = cluster.decide().actions
    creates = [one for one in actions if isinstance(one, Create) and one.resource == PODS]
    frames = {id(one.recipe.frame) for one in creates if isinstance(one.recipe, PodRecipe)}
    assert (len(creates), len(frames)) == (4096, 1)
