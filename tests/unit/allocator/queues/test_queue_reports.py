"""What the allocator reads and reports of the queues of namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from di_operator.allocator.admission.guarantees import bar_gangs
from di_operator.allocator.forecast.arrivals import ask_for_arrivals
from di_operator.allocator.grants.checked_plan import make_plan
from di_operator.allocator.grants.granting import NOTHING_SAID, step
from di_operator.allocator.grants.queue_report import by_amount, queue_states
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.sharing.queues import Queues, read_queues
from di_operator.lifecycle.observed.specs import read_spec
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.metrics.metrics import Metrics
from tests.unit.allocator import objects
from tests.unit.allocator.queues.test_queues import gang
from tests.unit.allocator.worlds import GPU, by_key, nodes

FOUR = read_queues({"rl": {"quota": {objects.SLOT: 4}}})


def look(
    *jobs: dict[str, Any], pods: list[dict[str, Any]], queues: Queues = FOUR
) -> SchedulingSnapshot:
    reader = ClusterReader(read_spec, queues=queues)
    reader.take(
        Changes.all(
            jobs=jobs,
            departed=[],
            nodes=[objects.node("a", 8)],
            pods=objects.numbered(pods),
            others=[],
        )
    )
    return reader.read(granted={}, now=objects.NOW)


@pytest.mark.proves("teams-queues.md#what-counts")
def test_ordinary_jobs_and_released_gangs_count_for_the_quota() -> None:
    ordinary = objects.job("web", objects.task("learner", 2), preemptible=False)
    let_go = objects.job(
        "gang",
        objects.task("learner", 1),
        objects.task("collector", 1),
        preemptible=False,
        scheduling={"gang": True},
    )
    new = objects.job("x", objects.task("learner", 2), phase="Pending")
    pods = [objects.pod("web", "learner", "a")]

    (found,) = look(ordinary, new, pods=pods).jobs.values()
    assert found.account is not None
    assert found.account.taken[objects.SLOT] == 1000
    # Of a gang that was let go what is not bound yet counts as well.
    seen = look(ordinary, let_go, new, pods=[*pods, objects.pod("gang", "learner", "a")])
    (account,) = {id(each.account): each.account for each in seen.jobs.values()}.values()
    assert account is not None
    assert account.taken[objects.SLOT] == 3000


@pytest.mark.proves("teams-queues.md#what-is-seen", "events.md#of-its-life/queuequotaexceeded")
def test_a_job_waiting_for_its_quota_reports_the_amounts() -> None:
    first = objects.job("x", objects.task("learner", 3), phase="Pending")
    second = objects.job("y", objects.task("learner", 2), phase="Pending")
    seen = look(first, second, pods=[])
    answer = ask_for_arrivals(NOTHING_SAID, seen, FitPolicy().allocate)
    assert {key: len(placed) for key, placed in answer.items()} == {"rl/x": 3, "rl/y": 0}

    grant = step(NOTHING_SAID, seen, answer, whole=False, explain=False).words["uid-y"].grant
    assert grant.reason is Reason.QUEUE_QUOTA_EXCEEDED
    assert grant.message == (
        f"the quota of namespace rl: it has 3 of its 4 {objects.SLOT}, and the job needs 2"
    )


@pytest.mark.proves(
    "metrics.md#operator/di-allocator-queue-resources", "teams-queues.md#what-is-seen"
)
def test_the_usage_of_queues_is_reported_and_measured() -> None:
    queues = read_queues(
        {
            "rl": {"guarantee": {objects.SLOT: 2}, "quota": {objects.SLOT: 8}, "weight": 3},
            "web": {"weight": 1},
        }
    )
    running = objects.job(
        "x", objects.task("learner", 2), status={"placement": {"learner": ["a", "a"]}}
    )
    ordinary = objects.job("web", objects.task("learner", 1), preemptible=False)
    seen = look(running, ordinary, pods=[objects.pod("web", "learner", "a")], queues=queues)
    states = queue_states(queues, seen)
    found = [(s.namespace, s.resource, s.weight, s.guarantee, s.used, s.borrowed) for s in states]
    assert found == [
        ("rl", objects.SLOT, 3, 2000, 3000, 1000),
        ("web", objects.SLOT, 1, None, 0, 0),
    ]
    metrics = Metrics()
    metrics.queues(by_amount(states))
    name = "di_allocator_queue_resources"
    labels = {"namespace": "rl", "resource": objects.SLOT}
    for amount, value in (("used", 3), ("guarantee", 2), ("quota", 8), ("borrowed", 1)):
        assert metrics.registry.get_sample_value(name, {**labels, "amount": amount}) == value
    labels["namespace"] = "web"
    assert metrics.registry.get_sample_value(name, {**labels, "amount": "quota"}) is None


def test_an_arrival_is_limited_to_the_rest_of_its_quota() -> None:
    new = objects.job("x", objects.task("learner", 1, minReplicas=1, maxReplicas=8))
    seen = look(new, pods=[])
    asked: list[JobInfo] = []

    def ask(each: JobInfo, _nodes: object) -> NodeList:
        asked.append(each)
        return WAIT

    ask_for_arrivals(NOTHING_SAID, seen, ask)
    (found,) = asked
    assert found.tasks[0].maximum == 4


def test_a_gang_waiting_for_guarantees_reports_that() -> None:
    jobs = bar_gangs(
        by_key(gang("b/x", 6)), {}, nodes(8, gpu=1), read_queues({"a": {"guarantee": {GPU: 3}}}), {}
    )
    (found,) = jobs.values()
    assert found.account is not None
    assert found.account.barred == (
        f"it cannot start: other namespaces are guaranteed too much of the 8 {GPU} on the"
        " nodes that it can use"
    )
    plan = make_plan({"b/x": NodeList.of({"learner": ("n000",) * 6})}, jobs, nodes(1, gpu=8), {})
    assert plan.allocations["b/x"] == WAIT
    waiting = objects.job("g", objects.task("learner", 2), phase="Pending", **objects.GANG)
    promised = read_queues({"web": {"guarantee": {objects.SLOT: 7}}})
    seen = look(waiting, pods=[], queues=promised)
    grant = step(NOTHING_SAID, seen, {}, whole=True, explain=True).words["uid-g"].grant
    assert grant.reason is Reason.WAITING_FOR_NODES
    assert grant.message == (
        f"it cannot start: other namespaces are guaranteed too much of the 8 {objects.SLOT} on the"
        " nodes that it can use"
    )


def test_an_arrival_counts_what_its_namespace_already_has() -> None:
    status = {"placement": {"learner": ["a"] * 3}}
    runs = objects.job("x", objects.task("learner", 3), status=status)
    new = objects.job("y", objects.task("learner", 2), phase="Pending")
    found = ask_for_arrivals(NOTHING_SAID, look(runs, new, pods=[]), FitPolicy().allocate)
    assert found == {"rl/y": WAIT}
