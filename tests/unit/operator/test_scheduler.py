"""When the scheduler reads the cluster and asks its policy, and when it does neither."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from di_api.spec import JobSpec
from di_kube.cache import WatchCache
from di_kube.resources import DIJOBS, PODS
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.policies.best_fit import FitPolicy
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.allocator.rounds.budgets import CHANGES, SHORTEST_INTERVAL
from di_operator.allocator.withdrawals.delays import FIRST_DELAY
from di_operator.allocator.withdrawals.withdrawals import GRACE
from di_operator.allocator_loop import SETTLE, Scheduler
from di_operator.cluster.informer_state import INDEX_JOB, index_job
from di_operator.lifecycle.observed.specs import SpecReader, read_spec
from di_operator.metrics.metrics import Metrics
from di_operator.process.controller import JobKey
from tests.unit.allocator.objects import job, node, numbered, pod, task
from tests.unit.operator import virtual_time
from tests.unit.operator.virtual_time import VirtualClock

Object = dict[str, Any]


class Cache:
    """The part of a watch cache that a scheduler uses."""

    def __init__(self, *bodies: Object) -> None:
        self.bodies = list(bodies)
        self.reads = 0
        self.synced = asyncio.Event()
        self.synced.set()
        self._tell: list[Callable[[str, Object], None]] = []

    def subscribe(self, callback: Callable[[str, Object], None]) -> None:
        self._tell.append(callback)
        for body in self.bodies:
            callback("ADDED", body)

    def deliver(self, kind: str, body: Object) -> None:
        uid = body["metadata"]["uid"]
        self.bodies = [one for one in self.bodies if one["metadata"]["uid"] != uid]
        if kind != "DELETED":
            self.bodies.append(body)
        for callback in self._tell:
            callback(kind, body)

    def get(self, namespace: str, name: str) -> Object | None:
        key = (namespace, name)
        found = (one["metadata"] for one in self.bodies)
        keys = [(each["namespace"], each["name"]) for each in found]
        return self.bodies[keys.index(key)] if key in keys else None

    def items(self) -> list[Object]:
        self.reads += 1
        return self.bodies

    def by_index(self, index: str, value: str) -> list[Object]:
        assert index == INDEX_JOB
        return [body for body in self.bodies if value in index_job(body)]

    async def run(self) -> None:
        await asyncio.Event().wait()


class Counting:
    """A policy that puts each job's learner on a node, and counts how often it is asked."""

    def __init__(self, then: Callable[[], None] = lambda: None, at: str = "a") -> None:
        self.asked = 0
        self.sizes: list[int] = []
        self.threads: set[int] = set()
        self._then = then
        self._answer = NodeList.of({"learner": (at,)}) if at else NodeList()

    def allocate(self, _job: JobInfo, _nodes: Mapping[str, NodeInfo]) -> NodeList:
        return NodeList()

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        _nodes: Mapping[str, NodeInfo],
        _previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        self.sizes.append(len(jobs))
        if "rl/bad" in jobs:
            raise OverflowError("cannot bear it")
        self.asked += 1
        self.threads.add(threading.get_ident())
        self._then()
        return dict.fromkeys(jobs, self._answer)


class Bench:
    """A scheduler that reconsiders all jobs once an hour, if nothing changes."""

    def __init__(
        self,
        policy: Policy,
        *jobs: Object,
        pods: Sequence[Object] = (),
        nodes: Sequence[Object] = (node("a", 4),),
        read: SpecReader = read_spec,
        forecaster: Policy | None = None,
        period: float = 3600.0,
        needs_dry_runs: bool = False,
    ) -> None:
        self.jobs, self.pods, self.nodes = Cache(*jobs), Cache(*pods), Cache(*nodes)
        self.woken: list[str] = []
        self.scheduler = Scheduler(
            policy=policy,
            forecaster=forecaster,
            caches={DIJOBS: cast("WatchCache", self.jobs), PODS: cast("WatchCache", self.pods)},
            nodes=cast("WatchCache", self.nodes),
            others=cast("WatchCache", Cache()),
            read_spec=read,
            wake=lambda key, _delay: self.woken.append(key.name),
            period=period,
            clock=VirtualClock(),
            observer=Metrics(),
            needs_dry_runs=needs_dry_runs,
        )
        self._running: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Let it run until it has reacted to all that has changed."""
        self._running = self._running or asyncio.create_task(self.scheduler.run())
        await asyncio.sleep(SHORTEST_INTERVAL + 5 * SETTLE)


@virtual_time.in_virtual_time
async def test_a_change_while_the_policy_is_asked_leads_to_another_question() -> None:
    loop = asyncio.get_running_loop()

    def another_node_comes() -> None:
        if policy.asked == 1:
            loop.call_soon_threadsafe(bench.nodes.deliver, "ADDED", node("b", 4))

    policy = Counting(another_node_comes, at="")
    bench = Bench(policy, job("x", task("learner"), phase="Pending"))
    await bench.run()
    assert policy.asked == 2


@virtual_time.in_virtual_time
async def test_the_largest_node_is_known_once_all_nodes_are() -> None:
    large = {**node("a", 4), "status": {"allocatable": {"memory": "4Gi"}}}
    bench = Bench(Counting(), nodes=[large])
    bench.nodes.synced.clear()
    assert bench.scheduler.largest_node_memory() is None
    bench.nodes.synced.set()
    assert bench.scheduler.largest_node_memory() == 4 * 2**30


@virtual_time.in_virtual_time
async def test_what_the_empty_cluster_could_run_is_known_once_all_nodes_are() -> None:
    small, large = (job(f"x{n}", task("learner", n), preemptible=False) for n in (4, 5))
    bench = Bench(Counting(), small, large)
    bench.nodes.synced.clear()
    assert not bench.scheduler.could_run(small)
    bench.nodes.synced.set()
    assert bench.scheduler.could_run(small)
    assert not bench.scheduler.could_run(large)
    assert not bench.scheduler.could_run({**small, "spec": {"tasks": 1}})


@virtual_time.in_virtual_time
async def test_nothing_is_read_while_no_job_asks_for_nodes() -> None:
    policy, gone = Counting(), pod("x", "learner", "a")
    bench = Bench(policy, job("x", task("learner"), preemptible=False), pods=[gone])
    await bench.run()
    bench.pods.deliver("DELETED", gone)
    bench.jobs.deliver("ADDED", job("y", task("learner"), preemptible=False))
    await bench.run()
    assert (bench.pods.reads, policy.asked) == (0, 0)
    bench.jobs.deliver("ADDED", job("z", task("learner"), phase="Pending"))
    await bench.run()
    assert (bench.pods.reads, policy.asked) == (1, 1)


@virtual_time.in_virtual_time
async def test_specs_are_read_and_the_policy_is_asked_in_another_thread() -> None:
    policy, reading = Counting(), set[int]()

    def read(found: Mapping[str, Any]) -> JobSpec:
        reading.add(threading.get_ident())
        return read_spec(found)

    await Bench(policy, job("x", task("learner"), phase="Pending"), read=read).run()
    assert reading
    assert policy.threads
    assert threading.get_ident() not in reading | policy.threads


@virtual_time.in_virtual_time
async def test_a_waiting_job_is_woken_with_its_expected_start() -> None:
    end = {
        key: f"2030-01-01T1{hour}:00:00Z"
        for hour, key in enumerate(("earliest", "expected", "latest"))
    }
    status = {"placement": {"learner": ["a", "a"]}, "expectedCompletion": end}
    runs = job("x", task("learner", 2), status=status)
    waits = job("w", task("learner", 2, minReplicas=2), phase="Pending")
    pods = numbered([pod("x", "learner", "a")] * 2)
    bench = Bench(FitPolicy(), runs, waits, pods=pods, nodes=[node("a", 2)], forecaster=FitPolicy())
    await bench.run()
    found = bench.scheduler.grant(waits).expected_start
    assert found is not None
    assert found.dump() == end
    assert bench.scheduler.grant(runs).expected_start is None
    assert "w" in bench.woken
    # The job has reported nothing that a curve could be fitted to.
    assert bench.scheduler.goodput("rl/x", runs["metadata"]["uid"]) is None


@virtual_time.in_virtual_time
async def test_pods_of_a_job_deleted_while_no_job_asked_keep_their_space() -> None:
    old, new = job("old", task("learner"), preemptible=False), job("x", task("learner"))
    leaving = pod("old", "learner", "a", ending=True)
    bench = Bench(Counting(), old, pods=[leaving], nodes=[node("a", 1)])
    await bench.run()
    bench.jobs.deliver("DELETED", old)
    bench.jobs.deliver("ADDED", new)
    await bench.run()
    assert bench.scheduler.grant(new).reason == "WaitingForNodes"
    bench.pods.deliver("DELETED", leaving)
    await bench.run()
    assert bench.scheduler.grant(new).placement == {"learner": ("a",)}


@pytest.mark.proves(
    "runbook.md#when-something-is-wrong/the-job-goes-on-and-a-condition",
    "events.md#of-its-life/notallocatable",
    "events.md#of-problems/notallocatable",
)
@virtual_time.in_virtual_time
async def test_a_job_that_the_policy_fails_on_waits_alone_with_the_reason() -> None:
    bodies = [job(name, task("learner"), phase="Pending") for name in ("bad", "x", "y")]
    bench = Bench(Counting(), *bodies)
    await bench.run()
    bad, *others = map(bench.scheduler.grant, bodies)
    assert (bad.placement, bad.reason) == (None, "NotAllocatable")
    assert "OverflowError: cannot bear it" in bad.message
    assert [each.placement for each in others] == [{"learner": ("a",)}] * 2


@virtual_time.in_virtual_time
async def test_a_failing_job_is_tried_alone_and_not_searched_for_again() -> None:
    bodies = [job(f"x{number}", task("learner"), phase="Pending") for number in range(16)]
    policy, bad = Counting(), job("bad", task("learner"), phase="Pending")
    bench = Bench(policy, bad, *bodies)
    await bench.run()
    assert bench.scheduler.grant(bad).reason == "NotAllocatable"
    del policy.sizes[:]
    for uid in ("b", "c", "d"):
        # It reports again and again, and others' changes bring all jobs to be reconsidered.
        bad = {**bad, "status": {"profilings": {"step": len(uid)}}}
        bench.jobs.deliver("MODIFIED", bad)
        bench.nodes.deliver("ADDED", node(uid, 4))
        await asyncio.sleep(10)
    assert bench.scheduler.grant(bad).reason == "NotAllocatable"
    # Once alone, when its delay was over; else all without it.
    assert sorted(policy.sizes) == [1, 16, 16, 16]


@virtual_time.in_virtual_time
async def test_changes_lead_to_one_reconsideration_in_each_interval() -> None:
    policy = Counting()
    bench = Bench(policy, job("x", task("learner"), phase="Pending"))
    await bench.run()
    policy.asked = 0
    for number in range(100):
        bench.nodes.deliver("ADDED", node(f"n{number}", 1))
        await asyncio.sleep(0.5)
    assert 9 <= policy.asked <= 11


def edited(body: Object, generation: int, **spec: Any) -> Object:
    metadata = {**body["metadata"], "generation": generation}
    return {**body, "metadata": metadata, "spec": {**body["spec"], **spec}}


@virtual_time.in_virtual_time
async def test_a_namespace_that_edits_all_the_time_is_looked_at_with_the_period() -> None:
    policy = Counting()
    busy = job("x", task("learner"), phase="Pending", metadata={"namespace": "busy"})
    bench = Bench(policy, busy, job("y", task("learner"), phase="Pending"))
    await bench.run()
    for number in range(2 * CHANGES):
        bench.jobs.deliver("MODIFIED", edited(busy, number + 2))
        await asyncio.sleep(0.1)
    await bench.run()
    policy.asked = 0
    for number in range(100):
        bench.jobs.deliver("MODIFIED", edited(busy, number + 100))
        await asyncio.sleep(1)
    assert policy.asked == 0
    other = job("y", task("learner"), phase="Pending")
    bench.jobs.deliver("MODIFIED", edited(other, 2))
    await bench.run()
    assert policy.asked == 1


@virtual_time.in_virtual_time
async def test_a_job_that_is_toggled_all_the_time_moves_no_job_of_others() -> None:
    learners = task("learner", 4, minReplicas=4)
    victim = job("v", learners, phase="Pending")
    toggled = job("x", learners, phase="Pending", priority="high", metadata={"namespace": "busy"})
    toggled["metadata"]["uid"] = "uid-toggled"
    bench = Bench(GoodputPolicy(), victim, period=20.0)
    await bench.run()
    assert bench.scheduler.grant(victim).placement == {"learner": ("a",) * 4}
    moved = 0
    for number in range(200):
        changed = edited(toggled, number + 1, suspend=number % 2 == 0)
        bench.jobs.deliver("MODIFIED" if number else "ADDED", changed)
        await asyncio.sleep(1)
        moved += bench.scheduler.grant(victim).placement == {} and number > 3 * CHANGES
    assert moved == 0
    # It may have what no other job wants all the same.
    bench.nodes.deliver("ADDED", node("b", 4))
    await asyncio.sleep(25)
    assert bench.scheduler.grant(changed).placement == {"learner": ("b",) * 4}


@virtual_time.in_virtual_time
async def test_a_refused_grant_is_withdrawn_and_given_to_the_next_job() -> None:
    first = job("x", task("learner", 4), phase="Pending", priority="high")
    second = job("y", task("learner", 4), phase="Pending")
    bench = Bench(FitPolicy(), first, second)
    await bench.run()
    assert bench.scheduler.grant(first).placement == {"learner": ("a",) * 4}
    began = asyncio.get_running_loop().time()
    bench.scheduler.refused(JobKey("rl", "x"), "exceeded quota: gpus", is_of_server=False)
    while not bench.scheduler.grant(second).placement:
        await asyncio.sleep(SETTLE)
    assert asyncio.get_running_loop().time() - began < GRACE.total_seconds() + 2
    grant = bench.scheduler.grant(first)
    assert (grant.placement, grant.reason) == ({}, "GrantWithdrawn")
    assert grant.message.endswith(": exceeded quota: gpus")
    assert bench.woken.count("x") >= 2


@virtual_time.in_virtual_time
async def test_a_withdrawn_job_is_tried_again_when_its_delay_ends() -> None:
    body = job("x", task("learner", 4), phase="Pending")
    bench = Bench(FitPolicy(), body)
    await bench.run()
    bench.scheduler.refused(JobKey("rl", "x"), "exceeded quota: gpus", is_of_server=False)
    await asyncio.sleep(GRACE.total_seconds() + 1)
    assert bench.scheduler.grant(body).reason == "GrantWithdrawn"
    await asyncio.sleep(FIRST_DELAY.total_seconds())
    assert bench.scheduler.grant(body).placement == {"learner": ("a",) * 4}


@virtual_time.in_virtual_time
async def test_an_unreadable_object_is_logged_once_and_so_is_its_successor() -> None:
    def broken(uid: str) -> Object:
        body = node("a", 4)
        body["metadata"]["uid"] = uid
        body["status"]["allocatable"]["cpu"] = "many"
        return body

    policy = Counting()
    bench = Bench(policy, job("x", task("learner"), phase="Pending"), nodes=[broken("1")])
    with capture_logs() as lines:
        for asked, found in enumerate((None, node("b", 4), broken("2")), start=1):
            if found is not None:
                bench.nodes.deliver("ADDED", found)
            await bench.run()
            assert policy.asked == asked
    named = [line for line in lines if line["event"] == "an object cannot be read"]
    assert [(line["kind"], line["name"], line["uid"]) for line in named] == [
        ("Node", "a", "1"),
        ("Node", "a", "2"),
    ]


@virtual_time.in_virtual_time
async def test_the_lifecycle_is_asked_for_a_dry_run_until_one_has_passed() -> None:
    first = job("x", task("learner", 4), phase="Pending", priority="high")
    second = job("y", task("learner", 4), phase="Pending")
    bench = Bench(FitPolicy(), first, second, needs_dry_runs=True)
    await bench.run()
    assert [bench.scheduler.grant(each).needs_dry_run for each in (first, second)] == [True, True]
    bench.scheduler.dry_run_passed(second)
    assert not bench.scheduler.grant(second).needs_dry_run
    bench.scheduler.refused(
        JobKey("rl", "x"), "no PriorityClass", is_of_server=False, is_dry_run=True
    )
    # It is answered, and asked again only when its delay is over.
    assert not bench.scheduler.grant(first).needs_dry_run
    await bench.run()
    assert bench.scheduler.grant(second).placement == {"learner": ("a",) * 4}
    refused = bench.scheduler.grant(first)
    assert (refused.placement, refused.reason) == ({}, "GrantWithdrawn")
    assert not refused.needs_dry_run
    await asyncio.sleep(FIRST_DELAY.total_seconds())
    assert bench.scheduler.grant(first).needs_dry_run
    assert bench.scheduler.grant(second).placement == {"learner": ("a",) * 4}


@virtual_time.in_virtual_time
async def test_edits_of_a_refused_job_move_no_job_before_the_next_period() -> None:
    victim = job("v", task("learner", 4, minReplicas=4), phase="Pending")
    refused = job("x", task("learner", 4, minReplicas=4), phase="Pending", priority="high")
    bench = Bench(GoodputPolicy(), victim, needs_dry_runs=True)
    await bench.run()
    bench.scheduler.dry_run_passed(victim)
    await bench.run()
    bench.jobs.deliver("ADDED", refused)
    for number in range(2, 6):
        bench.scheduler.refused(
            JobKey("rl", "x"), "no PriorityClass", is_of_server=False, is_dry_run=True
        )
        await bench.run()
        assert bench.scheduler.grant(refused).reason == "GrantWithdrawn"
        refused = edited(refused, number)
        bench.jobs.deliver("MODIFIED", refused)
        await bench.run()
        assert bench.scheduler.grant(refused).needs_dry_run
        assert bench.scheduler.grant(victim).placement == {"learner": ("a",) * 4}


@virtual_time.in_virtual_time
async def test_a_preempted_job_that_needs_another_dry_run_gives_up_its_nodes() -> None:
    runs = job("x", task("learner"), status={"placement": {"learner": ["a"]}})
    bench = Bench(Counting(at=""), runs, pods=[pod("x", "learner", "a")], needs_dry_runs=True)
    await bench.run()
    found = bench.scheduler.grant(runs)
    assert (found.placement, found.needs_dry_run) == ({}, True)


@virtual_time.in_virtual_time
async def test_a_resumed_job_does_not_take_the_nodes_that_its_status_still_shows() -> None:
    runs = job("x", task("learner"), status={"placement": {"learner": ["a"]}})
    suspended = {**runs, "spec": {**runs["spec"], "suspend": True}}
    bench = Bench(Counting(at=""), suspended)
    assert bench.scheduler.grant(runs).placement is None
    await bench.run()
    assert bench.scheduler.grant(suspended).placement is None
    assert bench.scheduler.grant(runs).placement == {}


@virtual_time.in_virtual_time
async def test_a_refused_dry_run_of_an_earlier_spec_is_followed_by_another() -> None:
    waits = job("x", task("learner"), phase="Pending")
    waits["metadata"]["generation"] = 1
    bench = Bench(Counting(), waits, needs_dry_runs=True)
    await bench.run()
    assert bench.scheduler.grant(waits).needs_dry_run
    bench.scheduler.refused(JobKey("rl", "x"), "forbidden", is_of_server=False, is_dry_run=True)
    corrected = {**waits, "metadata": {**waits["metadata"], "generation": 2}}
    bench.jobs.deliver("MODIFIED", corrected)
    assert not bench.scheduler.grant(corrected).needs_dry_run
    await bench.run()
    assert bench.woken == ["x"]
    assert bench.scheduler.grant(corrected).needs_dry_run
