"""Runs one plan: operators behind proxies, a workload, and what is left of it."""

from __future__ import annotations

import asyncio
import itertools
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from di_api.kube.errors import Conflict, NotFound
from di_api.kube.resources import DIJOBS
from tests.faults.component import Component
from tests.faults.footprint import Footprint, complaints, read_events, read_state
from tests.faults.ground import Ground, Object
from tests.faults.plan import Fault, Kill, Notice, Plan, Request, Terminate
from tests.faults.proxy import Done, FaultProxy
from tests.faults.workloads import JOB, REPLICAS, WORKLOADS
from tests.waiting import wait_until_async

# Seconds; no workload takes a tenth of it, whatever goes wrong.
DEADLINE = 40.0
# No write for so long, and nothing more will come: the longest pauses of the operator that are
# not the poll's are shorter when no fault is met.
QUIET = 0.8
# Seconds; the operator's shortest poll is what repairs events that never came.
SYNC_PERIOD = 3.0
PATIENCE = 15.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of one plan.

    Attributes:
        trouble: why the workload did not get to its end; None if it did.
        requests: what the first replica asked for, in order.
        notices: what the first replica was sent by its watches, in order.
        met: the plan's faults that happened.
    """

    plan: Plan
    footprint: Footprint
    trouble: str | None
    requests: tuple[Request, ...]
    notices: tuple[Notice, ...]
    met: tuple[Fault, ...]
    seconds: float
    logs: str


class Replica:
    """One operator behind its own proxy."""

    def __init__(self, ground: Ground, namespace: str, identity: str, faults: tuple[Fault, ...]):
        self._folder = ground.folder / namespace / identity
        self._namespace = namespace
        self._identity = identity
        self._background: set[asyncio.Task[None]] = set()
        self._retired = False
        self.proxy = FaultProxy(
            ground.config,
            component=f"{namespace}-{identity}",
            faults=faults,
            end=self._end,
            clock=time.monotonic,
        )
        self.component: Component | None = None

    def start(self) -> None:
        environment = {
            "DI_OPERATOR_NAMESPACE": self._namespace,
            "DI_OPERATOR_WATCH_NAMESPACE": self._namespace,
            "DI_OPERATOR_IDENTITY": self._identity,
            "DI_OPERATOR_HEALTH_BIND": "127.0.0.1:0",
            "DI_OPERATOR_SYNC_PERIOD": str(SYNC_PERIOD),
        }
        self.component = Component(
            folder=self._folder, server=self.proxy.url, environment=environment
        )
        self.component.start()

    @property
    def running(self) -> Component:
        assert self.component is not None
        return self.component

    @property
    def is_settled(self) -> bool:
        """No restart is under way."""
        return not self._background

    async def stop(self) -> None:
        """Stop it for good, as SIGTERM does."""
        self._retired = True
        await asyncio.gather(*self._background)
        self.running.signal(signal.SIGTERM)
        try:
            await self.running.ended()
        except TimeoutError:
            self.running.signal(signal.SIGKILL)
            raise

    def _end(self, action: Kill | Terminate) -> None:
        killed = isinstance(action, Kill)
        self.running.signal(signal.SIGKILL if killed else signal.SIGTERM)
        if self._retired or (isinstance(action, Kill) and not action.back):
            return
        task = asyncio.get_running_loop().create_task(self._come_back())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _come_back(self) -> None:
        await self.running.restart()
        self.proxy.revive()


class Play:
    """A workload on its way; the `Stage` of `workloads`."""

    def __init__(self, ground: Ground, namespace: str, replicas: list[Replica]) -> None:
        self._ground = ground
        self._namespace = namespace
        self._replicas = replicas

    async def submit(self, body: Object) -> Object:
        return await self._ground.client.create(DIJOBS, body, self._namespace)

    async def patch(self, spec: Object) -> None:
        await self._ground.client.patch(DIJOBS, JOB, {"spec": spec}, self._namespace)

    async def delete(self) -> None:
        await self._ground.client.delete(DIJOBS, JOB, self._namespace)

    async def fail(self, pod: str) -> None:
        await self._ground.kubelet.finish(self._namespace, pod, exit_code=1)

    async def finish(self, pod: str) -> None:
        await self._ground.kubelet.finish(self._namespace, pod)

    async def reached(self, what: str, test: Callable[[Object], bool]) -> None:
        def answer() -> bool:
            job = self.job()
            return job is not None and test(job.get("status") or {})

        await self.until(what, answer)

    async def until(self, what: str, test: Callable[[], object]) -> None:
        await wait_until_async(test, DEADLINE, what=what, every=0.02)

    def pods(self) -> Mapping[str, Object]:
        return {
            pod["metadata"]["name"]: pod
            for pod in self._ground.pods.items()
            if pod["metadata"]["namespace"] == self._namespace
        }

    def job(self) -> Object | None:
        return self._ground.jobs.get(self._namespace, JOB)

    async def hand_over(self) -> None:
        await self._replicas[0].stop()


async def run(ground: Ground, plan: Plan, expected: Callable[[Footprint], bool]) -> Run:
    """Carry out a plan.

    ``expected`` tells whether a footprint is what is hoped for: the run is over as soon as it is,
    or when there is no hope any more.
    """
    namespace = f"f-{next(_numbers)}"
    started = time.monotonic()
    await ground.namespace(namespace)
    folder = ground.folder / namespace
    folder.mkdir(parents=True)
    (folder / "plan").write_text(f"{plan}\n")
    async with AsyncExitStack() as stack:
        replicas: list[Replica] = []
        for index in range(REPLICAS.get(plan.workload, 1)):
            # Faults strike the first; the others are the ones who have to live with it.
            faults = plan.faults if index == 0 else ()
            replica = Replica(ground, namespace, f"replica-{index}", faults)
            await stack.enter_async_context(replica.proxy)
            replicas.append(replica)
        await _start(replicas)
        play = Play(ground, namespace, replicas)
        try:
            trouble = await _play(play, plan)
            footprint = await _settle(ground, namespace, replicas, expected, started)
        finally:
            await asyncio.gather(*(replica.stop() for replica in replicas))
        logs = "\n".join(replica.running.log for replica in replicas)
        journal = replicas[0].proxy.journal
        return Run(
            plan=plan,
            footprint=replace(footprint, complaints=tuple(complaints(logs))),
            trouble=trouble,
            requests=tuple(done.request for done in journal.requests),
            notices=tuple(journal.notices),
            met=tuple(journal.met),
            seconds=time.monotonic() - started,
            logs=logs,
        )


async def _start(replicas: list[Replica]) -> None:
    """Start the replicas; the first one leads."""
    for replica in replicas:
        replica.start()
        if replica is replicas[0] and len(replicas) > 1:
            await wait_until_async(
                lambda: any(
                    done.request.what == "leases" and done.request.is_write and done.code < 300
                    for done in replicas[0].proxy.journal.requests
                ),
                10,
                what="the first replica to lead",
            )


async def _play(play: Play, plan: Plan) -> str | None:
    try:
        if plan.ends is None:
            await WORKLOADS[plan.workload](play)
        else:
            await _play_to_failure(play, plan)
    except AssertionError as error:
        return str(error)
    except (NotFound, Conflict) as error:
        return f"the workload itself: {error}"
    return None


async def _play_to_failure(play: Play, plan: Plan) -> None:
    """Go on with the workload only until the job has failed, for the reason foreseen."""

    def has_failed(status: Object) -> bool:
        return status.get("phase") == "Failed" and any(
            condition["reason"] == plan.ends for condition in status.get("conditions", ())
        )

    story = asyncio.ensure_future(WORKLOADS[plan.workload](play))
    try:
        await play.reached(f"Failed, {plan.ends}", has_failed)
    finally:
        story.cancel()
        await asyncio.gather(story, return_exceptions=True)


async def _settle(
    ground: Ground,
    namespace: str,
    replicas: list[Replica],
    expected: Callable[[Footprint], bool],
    started: float,
) -> Footprint:
    """Wait until nobody writes any more and all is as it should be, or will never be."""
    end = time.monotonic() + PATIENCE
    while True:
        writes = [
            done.at
            for replica in replicas
            for done in replica.proxy.journal.requests
            if done.request.is_write and done.request.what != "leases"
        ]
        quiet = time.monotonic() - max(writes, default=started)
        if quiet >= QUIET and all(replica.is_settled for replica in replicas):
            footprint = await _read(ground, namespace, replicas)
            if expected(footprint) or time.monotonic() >= end:
                return footprint
        await asyncio.sleep(0.2)


async def _read(ground: Ground, namespace: str, replicas: list[Replica]) -> Footprint:
    done = [one for replica in replicas for one in replica.proxy.journal.requests]
    return Footprint(
        state=await read_state(ground.client, namespace),
        creates=_carried_out(done, "create"),
        deletes=_carried_out(done, "delete"),
        pods={
            name: len(uids) for (place, name), uids in ground.created.items() if place == namespace
        },
        events=await read_events(ground.client, namespace),
    )


def _carried_out(done: list[Done], verb: str) -> Counter[str]:
    return Counter(
        _object(one.request)
        for one in done
        if one.request.verb == verb
        and 200 <= one.code < 300
        and one.request.what not in ("events", "leases")
    )


def _object(request: Request) -> str:
    return f"{request.what}/{request.name}"
