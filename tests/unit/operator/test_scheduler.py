"""When the scheduler looks at the cluster, and when it need not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, cast

from structlog.testing import capture_logs
from typing_extensions import override

from di_api.kube.cache import WatchCache
from di_api.kube.resources import DIJOBS, PODS
from di_api.spec import JobSpec
from di_operator.allocator.job import JobInfo, NodeList
from di_operator.allocator.node import NodeInfo
from di_operator.allocator.policies.fit import FitPolicy
from di_operator.clock import SystemClock
from di_operator.informer_state import INDEX_JOB, index_job
from di_operator.lifecycle.specs import SpecReader, read_spec
from di_operator.metrics import Metrics
from di_operator.scheduler import SETTLE, Scheduler
from tests.unit.allocator.test_scheduling_snapshot import job, node, pod, task
from tests.waiting import wait_until_async

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
        for callback in self._tell:
            callback(kind, body)

    def items(self) -> list[Object]:
        self.reads += 1
        return self.bodies

    def by_index(self, index: str, value: str) -> list[Object]:
        assert index == INDEX_JOB
        return [body for body in self.bodies if value in index_job(body)]

    async def run(self) -> None:
        await asyncio.Event().wait()


class Counting:
    """A policy that gives nobody anything and is called back at each question."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.asked = 0
        self._then = then

    def allocate(self, _job: JobInfo, _nodes: Mapping[str, NodeInfo]) -> NodeList:
        return NodeList()

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        _nodes: Mapping[str, NodeInfo],
        _previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        self.asked += 1
        self._then()
        return dict.fromkeys(jobs, NodeList())


def scheduler(
    policy: Counting, jobs: Cache, pods: Cache, nodes: Cache, read: SpecReader = read_spec
) -> Scheduler:
    """One that reconsiders everything once an hour, if nothing changes."""
    caches = {DIJOBS: cast("WatchCache", jobs), PODS: cast("WatchCache", pods)}
    return Scheduler(
        policy=policy,
        caches=caches,
        nodes=cast("WatchCache", nodes),
        others=cast("WatchCache", Cache()),
        read_spec=read,
        wake=lambda _key, _delay: None,
        period=3600.0,
        clock=SystemClock(),
        observer=Metrics(),
    )


def test_what_changes_while_the_policy_thinks_is_looked_at_next() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        nodes = Cache(node("a", 4))

        def another_node_comes() -> None:
            if policy.asked == 1:
                loop.call_soon_threadsafe(nodes.deliver, "ADDED", node("b", 4))

        policy = Counting(another_node_comes)
        jobs = Cache(job("x", task("learner"), phase="Pending"))
        running = asyncio.create_task(scheduler(policy, jobs, Cache(), nodes).run())
        try:
            await wait_until_async(lambda: policy.asked == 2, 10, what="a second look")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(body())


def test_the_largest_node_is_known_once_all_nodes_are() -> None:
    async def body() -> None:
        large = {**node("a", 4), "status": {"allocatable": {"memory": "4Gi"}}}
        nodes = Cache(large)
        nodes.synced.clear()
        running = scheduler(Counting(), Cache(), Cache(), nodes)
        assert running.largest_node_memory() is None
        nodes.synced.set()
        assert running.largest_node_memory() == 4 * 2**30

    asyncio.run(body())


def test_where_nobody_asks_for_nodes_nothing_is_read() -> None:
    async def body() -> None:
        policy, pods = Counting(), Cache(pod("x", "learner", "a"))
        jobs = Cache(job("x", task("learner"), preemptible=False))
        running = asyncio.create_task(scheduler(policy, jobs, pods, Cache(node("a", 4))).run())
        try:
            pods.deliver("DELETED", pods.bodies[0])
            jobs.bodies.append(job("y", task("learner"), preemptible=False))
            jobs.deliver("ADDED", jobs.bodies[-1])
            # That nothing happens shows only after the time in which it would have.
            await asyncio.sleep(2 * SETTLE)
            assert (pods.reads, policy.asked) == (0, 0)
            jobs.bodies.append(job("z", task("learner"), phase="Pending"))
            jobs.deliver("ADDED", jobs.bodies[-1])
            await wait_until_async(lambda: policy.asked == 1, 10, what="the first look")
            assert pods.reads == 1
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(body())


class OnNodeA(Counting):
    """Gives each job one replica on node a, and remembers the threads it was asked in."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    @override
    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        self.threads.add(threading.get_ident())
        super().optimize(jobs, nodes, previous)
        return {key: NodeList.of({"learner": ("a",)}) for key in jobs}


def test_specs_are_read_and_the_policy_is_asked_beside_the_event_loop() -> None:
    async def body() -> None:
        policy, reading = OnNodeA(), set[int]()

        def read(found: Mapping[str, Any]) -> JobSpec:
            reading.add(threading.get_ident())
            return read_spec(found)

        x = job("x", task("learner"), phase="Pending")
        parts = scheduler(policy, Cache(x), Cache(), Cache(node("a", 4)), read)
        running = asyncio.create_task(parts.run())
        try:
            await wait_until_async(lambda: policy.asked, 10, what="a look")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert reading
        assert threading.get_ident() not in reading | policy.threads

    asyncio.run(body())


def test_a_job_that_waits_is_told_when_it_will_start_and_woken_for_it() -> None:
    async def body() -> None:
        end = {
            key: f"2030-01-01T1{hour}:00:00Z"
            for hour, key in enumerate(("earliest", "expected", "latest"))
        }
        status = {"placement": {"learner": ["a", "a"]}, "expectedCompletion": end}
        runs = job("x", task("learner", 2), status=status)
        waits = job("w", task("learner", 2, minReplicas=2), phase="Pending")
        pods = [pod("x", "learner", "a"), pod("x", "learner", "a")]
        pods[1]["metadata"] |= {"name": "x-learner-1", "uid": "uid-x-learner-1"}
        woken: list[str] = []
        parts = Scheduler(
            policy=FitPolicy(),
            forecaster=FitPolicy(),
            caches={
                DIJOBS: cast("WatchCache", Cache(runs, waits)),
                PODS: cast("WatchCache", Cache(*pods)),
            },
            nodes=cast("WatchCache", Cache(node("a", 2))),
            others=cast("WatchCache", Cache()),
            read_spec=read_spec,
            wake=lambda key, _delay: woken.append(key.name),
            period=3600.0,
            clock=SystemClock(),
            observer=Metrics(),
        )
        running = asyncio.create_task(parts.run())
        try:
            await wait_until_async(lambda: parts.grant(waits).expected_start, 10, what="a start")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        found = parts.grant(waits).expected_start
        assert found is not None
        assert found.dump() == end
        assert parts.grant(runs).expected_start is None
        assert "w" in woken
        # It has reported nothing that a curve could be made of.
        assert parts.goodput(runs) is None

    asyncio.run(body())


def test_the_pods_of_a_job_that_went_while_nobody_asked_keep_their_room() -> None:
    async def body() -> None:
        old, new = job("old", task("learner"), preemptible=False), job("x", task("learner"))
        policy, jobs = OnNodeA(), Cache(old)
        pods = Cache(pod("old", "learner", "a", ending=True))
        parts = scheduler(policy, jobs, pods, Cache(node("a", 1)))
        running = asyncio.create_task(parts.run())
        try:
            await asyncio.sleep(0)
            jobs.bodies[:] = [new]
            jobs.deliver("DELETED", old)
            jobs.deliver("ADDED", new)
            await wait_until_async(
                lambda: parts.grant(new).reason == "WaitingForNodes", 10, what="a word on x"
            )
            pods.deliver("DELETED", pods.bodies.pop())
            await wait_until_async(
                lambda: parts.grant(new).placement == {"learner": ("a",)}, 10, what="the room"
            )
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(body())


class Picky(Counting):
    """Fails on a job called bad, gives each other one node a."""

    @override
    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        if "rl/bad" in jobs:
            raise OverflowError("cannot bear it")
        super().optimize(jobs, nodes, previous)
        return {key: NodeList.of({"learner": ("a",)}) for key in jobs}


def test_a_job_that_the_policy_fails_on_waits_alone_and_is_told_why() -> None:
    async def body() -> None:
        policy = Picky()
        bodies = [job(name, task("learner"), phase="Pending") for name in ("bad", "x", "y")]
        parts = scheduler(policy, Cache(*bodies), Cache(), Cache(node("a", 4)))
        running = asyncio.create_task(parts.run())
        try:
            await wait_until_async(
                lambda: parts.grant(bodies[1]).placement is not None, 10, what="a grant"
            )
            bad = parts.grant(bodies[0])
            assert (bad.placement, bad.reason) == (None, "NotAllocatable")
            assert "OverflowError: cannot bear it" in bad.message
            assert parts.grant(bodies[2]).placement == {"learner": ("a",)}
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(body())


def test_an_object_that_cannot_be_read_is_named_once_and_so_is_its_successor() -> None:
    def broken(uid: str) -> Object:
        body = node("a", 4)
        body["metadata"]["uid"] = uid
        body["status"]["allocatable"]["cpu"] = "many"
        return body

    async def body() -> None:
        policy, nodes = Counting(), Cache(broken("1"))
        jobs = Cache(job("x", task("learner"), phase="Pending"))
        running = asyncio.create_task(scheduler(policy, jobs, Cache(), nodes).run())

        async def looks(number: int) -> None:
            await wait_until_async(lambda: policy.asked == number, 10, what=f"look {number}")

        try:
            await looks(1)
            nodes.bodies.append(node("b", 4))
            nodes.deliver("ADDED", nodes.bodies[-1])
            await looks(2)
            nodes.bodies[0] = broken("2")
            nodes.deliver("ADDED", nodes.bodies[0])
            await looks(3)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    with capture_logs() as lines:
        asyncio.run(body())
    named = [line for line in lines if line["event"] == "an object cannot be read"]
    assert [(line["kind"], line["name"], line["uid"]) for line in named] == [
        ("Node", "a", "1"),
        ("Node", "a", "2"),
    ]
