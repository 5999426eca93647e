"""Nodes that the scheduler refused: for how long they are not tried, and what is reported."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from di_operator.allocator.grants.granting import NOTHING_SAID, Step, step
from di_operator.allocator.model.job import WAIT, NodeList
from di_operator.allocator.observe.changes import Changes, News
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.observe.refused_nodes import Refusals
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.builders.pinning import pin
from di_operator.lifecycle.observed.specs import read_spec
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.allocator.objects import NOW, job, node, placed, pod, task

Object = dict[str, Any]
WORDS = "0/2 nodes are available: 1 node(s) had volume node affinity conflict"
ON_A, ON_B = placed(learner="a a"), placed(learner="b b")


def unbound(name: str, index: int = 0, *, refused: bool = True, **status: Any) -> Object:
    """The learner of job x on a node, as its scheduler has left it."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    conditions = [{**condition, "message": WORDS}] if refused else []
    body = pod("x", "learner", "", phase="Pending")
    body["metadata"] |= {"name": f"x-learner-{index}", "uid": f"uid-{name}-{index}"}
    return body | {
        "spec": {"affinity": pin(name)},
        "status": {"phase": "Pending", "conditions": conditions, **status},
    }


def bound(name: str, index: int) -> Object:
    """The same pod where it runs."""
    spec = {"affinity": pin(name), "nodeName": name}
    return unbound(name, index, refused=False, phase="Running") | {"spec": spec}


class Bench:
    """One job of two learners, two nodes that fit it, and the policy `fit`."""

    def __init__(self, *tasks: Object) -> None:
        self.reader = ClusterReader(read_spec)
        self.now = NOW
        self.body = job("x", *(tasks or (task("learner", 2),)), phase="Pending")
        first = Changes.all(
            jobs=[self.body], departed=[], nodes=[node("a", 4), node("b", 4)], pods=[], others=[]
        )
        self.reader.take(first)
        self.words = NOTHING_SAID

    def see(self, *pods: Object) -> None:
        for found in pods:
            self.reader.put_pod(found)

    def step(self, after: float = 0) -> Step:
        self.now += timedelta(seconds=after)
        given = {uid: word.has for uid, word in self.words.items()}
        found = self.reader.read(granted=given, now=self.now)
        answer = FitPolicy().optimize(found.jobs, found.nodes, found.held)
        done = step(self.words, found, answer, whole=True, explain=True)
        self.words = done.words
        return done

    def where(self, after: float = 0) -> NodeList:
        return self.step(after).words["uid-x"].has


def replaced(bench: Bench, gone: Iterable[Object]) -> None:
    for found in gone:
        bench.reader.remove_pod(found)


def test_a_refused_job_moves_at_once_and_may_return_after_a_delay() -> None:
    bench = Bench()
    assert bench.where() == ON_A
    refused = [unbound("a", 0), unbound("a", 1, refused=False)]
    bench.see(*refused)
    assert bench.where() == ON_B
    replaced(bench, refused)
    assert bench.where(after=14) == ON_B

    bench.see(*(other := [unbound("b", 0), unbound("b", 1)]))
    assert bench.where() == WAIT
    replaced(bench, other)
    assert bench.where(after=1) == ON_A


@pytest.mark.proves(
    "events.md#of-its-life/refusedbyscheduler",
    "allocation.md#a-job-that-shares/the-scheduler-refuses-it-everywhere",
)
def test_a_job_refused_everywhere_reports_the_schedulers_message() -> None:
    bench = Bench()
    bench.step()
    bench.see(unbound("a"), unbound("b"))
    grant = bench.step().words["uid-x"].grant
    assert (grant.placement, grant.reason) == ({}, Reason.REFUSED_BY_SCHEDULER)
    assert grant.message == f"the scheduler refused pod x-learner-0 on node a: {WORDS}"


def test_the_delay_after_refusals_doubles_up_to_ten_minutes() -> None:
    bench = Bench()
    bench.step()
    pauses = []
    for _ in range(9):
        bench.see(unbound("b"), unbound("a"))
        assert bench.where() == WAIT
        waited = 0
        while bench.where(after=1) == WAIT:
            waited += 1
        pauses.append(waited + 1)
    assert pauses == [15, 30, 60, 120, 240, 480, 600, 600, 600]


def test_refusals_of_pods_created_together_count_once() -> None:
    bench = Bench()
    bench.step()
    bench.see(unbound("a", 0))
    bench.step()
    bench.see(unbound("a", 1), unbound("b"))
    assert bench.where(after=14) == WAIT
    assert bench.where(after=1) == ON_A


def test_a_node_that_binds_the_refused_pod_is_tried_again() -> None:
    bench = Bench()
    bench.step()
    bench.see(unbound("a", 0))
    assert bench.where() == ON_B
    bench.see(bound("a", 0))
    bench.see(unbound("b"))
    assert bench.where() == ON_A


def test_another_bound_pod_does_not_cancel_a_refusal() -> None:
    bench = Bench()
    bench.step()
    bench.see(bound("a", 1), unbound("a", 0), bound("a", 1))
    assert bench.where() == ON_B
    bench.see(bound("a", 1))
    assert bench.where() == ON_B


def test_a_pod_bound_before_the_next_read_was_not_refused() -> None:
    bench = Bench()
    bench.step()
    bench.see(unbound("a", 0), bound("a", 0))
    assert bench.where() == ON_A


def test_a_refusal_is_forgotten_with_its_job() -> None:
    bench = Bench()
    bench.see(unbound("a"))
    bench.step()
    bench.reader.remove_job(bench.body)
    bench.reader.put_job(bench.body)
    bench.words = NOTHING_SAID
    replaced(bench, [unbound("a")])
    assert bench.where() == ON_A


def test_refusals_of_a_deleted_job_are_dropped() -> None:
    refusals = Refusals()
    refusals.put_pod(unbound("a"))
    refusals.look(NOW, jobs=())
    refusals.look(NOW, jobs=("uid-x",))
    assert refusals.words("uid-x", NOW) == ""
    refusals.put_pod(unbound("a"))
    refusals.look(NOW, jobs=("uid-x",))
    assert WORDS in refusals.words("uid-x", NOW)


def test_a_refusal_concerns_one_task_of_the_job() -> None:
    bench = Bench(task("learner", 1), task("collector", 4))
    bench.see(unbound("a"))
    assert bench.where() == placed(learner="b", collector="a b b b")


def test_a_refusal_of_one_pod_of_a_replica_concerns_its_task() -> None:
    bench = Bench(task("learner", 1, podsPerReplica=2))
    found = unbound("a")
    assert found["metadata"]["name"] == "x-learner-0"
    found["metadata"]["name"] = "x-learner-0-1"
    bench.see(found)
    assert bench.where() == placed(learner="b b")


@pytest.mark.parametrize(
    "found",
    [
        unbound("a", refused=False),
        unbound("a", nominatedNodeName="a"),
        unbound("a") | {"spec": {}},
        unbound("a") | {"spec": {"nodeName": "a"}},
        unbound("a", conditions=[{"type": "PodScheduled", "status": "True"}]),
        unbound("a", conditions=[{"type": "PodScheduled", "status": "False"}]),
    ],
    ids=["new", "room is being made", "free to choose", "bound", "scheduled", "gated"],
)
def test_a_pod_that_is_not_refused_changes_nothing(found: Object) -> None:
    bench = Bench()
    bench.see(found)
    assert bench.where() == ON_A


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
def test_a_refusal_leads_to_a_full_reconsideration(kind: str) -> None:
    news = News(monotonic=lambda: 0.0)
    news.asking, news.everything = {"uid-x"}, False
    assert not news.on_pod(kind, unbound("a", refused=False))
    assert not news.on_pod(kind, unbound("a") | {"spec": {}})
    assert not news.everything
    assert news.on_pod(kind, unbound("a"))
    assert news.everything


def test_a_refusal_counts_from_the_next_read() -> None:
    bench = Bench()
    bench.step()
    bench.see(unbound("a"))
    late: datetime = bench.now + timedelta(seconds=100)
    bench.now = late
    assert bench.where() == ON_B
