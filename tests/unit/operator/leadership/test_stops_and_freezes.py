"""A stop and a freeze of the leader at every step that its event loop takes.

A clean run of the real runtime, controller and election is counted step by step: a step is a
callback that the event loop runs, so each await of each task begins and ends with one. Then the
run is repeated with a fault before each step. SIGSTOP and SIGCONT look to a process as if its
time jumped, so a freeze is a jump of the loop's time.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, Final, cast

import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from di_kube.errors import ApiError
from di_kube.resources import DIJOBS, LEASES, PODS, Resource
from di_operator.cluster.event_recorder import EventRecorder
from di_operator.cluster.kueue_watch import NoKueue
from di_operator.leadership.election import Election, Timing
from di_operator.leadership.release_claim import Claim, ClaimTiming
from di_operator.metrics.metrics import Metrics
from di_operator.process.concurrency import spread
from di_operator.process.controller import Controller, JobKey
from di_operator.process.lease_state import Loss, NotLeading
from di_operator.process.queue import KeyedBackoff, KeyQueue
from di_operator.process.supervision import Supervisor
from di_operator.runtime import DRAIN_SECONDS, EVENT_DRAIN_SECONDS, Runtime
from tests.profiles import by_profile
from tests.unit.operator.fake_api import FakeApi, Object
from tests.unit.operator.replica import Cache
from tests.unit.operator.virtual_time import VirtualClock, VirtualTimeLoop

FREEZE: Final = 20.0
"""Seconds; longer than a lease, and than a standby replica needs to take it over."""
AT_WORK: Final = 5.0
"""Seconds from the start of a run until a stop that ends a clean run."""
END: Final = DRAIN_SECONDS + EVENT_DRAIN_SECONDS + 10.0
"""Seconds from a stop, or from a thaw, in which a replica has to end: the drain, and one request
that hangs while the lease is given back. Kubernetes sends SIGKILL 30 s after SIGTERM."""
NOTICE: Final = 1.0
"""Seconds from a thaw in which writes may still leave that were decided before the freeze."""
NAMESPACE: Final = "ns"
LEASE: Final = ("Lease", NAMESPACE, "di-operator")
BUSY: Final = ("writes", "spreads", "sleeps", "catches", "hangs")
"""Names of the reconciled objects, each of which has its own way to await."""
IDLE: Final = ("hangs",)
"""Without a reconcile or a duty that checks the lease, only its renewal finds it lost."""
METRICS: Final = Metrics()
"""Of all runs; nothing reads them."""


class Loop(VirtualTimeLoop):
    """Calls `strike` before one step; counts steps from 1."""

    def __init__(self, step: int, strike: Callable[[], None]) -> None:
        super().__init__()
        self._at = step
        self._strike = strike
        self._counts = False
        self.steps = 0

    def begin(self) -> None:
        """Count from here on: the next step is the first."""
        self._counts = True

    def jump(self, seconds: float) -> None:
        self._jumping.time += seconds

    @override
    def call_soon(  # type: ignore[override]  # that of typeshed has a variadic type
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return super().call_soon(partial(self._step, callback), *args, context=context)

    def _step(self, callback: Callable[..., object], *args: object) -> None:
        if self._counts:
            self.steps += 1
            if self.steps == self._at:
                self._strike()
        callback(*args)


class Api(FakeApi):
    """Carries a request out half-way between its start and its answer; notes when writes begin."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[float, str]] = []
        self.mighty = {"system:serviceaccount:ns:di-operator"}
        for name in BUSY:
            self.put(PODS, NAMESPACE, {"metadata": {"name": name}})

    @override
    async def patch(self, resource: Resource, name: str, patch: Object, *args: Any) -> Object:  # type: ignore[override]  # only what reconciles here use
        self.writes.append((asyncio.get_running_loop().time(), name))
        found = await super().patch(resource, name, patch, *args)
        await asyncio.sleep(0.001)
        return found

    @override
    async def replace(self, *args: Any, **options: Any) -> Object:
        found = await super().replace(*args, **options)
        await asyncio.sleep(0.001)
        return found

    @override
    async def create(self, *args: Any, **options: Any) -> Object:
        found = await super().create(*args, **options)
        await asyncio.sleep(0.001)
        return found

    @property
    def holder(self) -> str | None:
        lease = self.objects.get(LEASE)
        return None if lease is None else str(lease["spec"]["holderIdentity"])

    def hand_to_another(self) -> None:
        """Do what a standby replica does once the lease has run out, and renew for an hour."""
        lease = self.objects.get(LEASE)
        if lease is not None:
            taken = {"holderIdentity": "b", "leaseDurationSeconds": 3600}
            self.put(LEASES, NAMESPACE, {**lease, "spec": {**lease["spec"], **taken}})


class Informers:
    """Wakes a replica's keys."""

    hidden: frozenset[str] = frozenset()

    def __init__(self, queue: KeyQueue[JobKey], names: Sequence[str]) -> None:
        self._queue = queue
        self._names = names

    def reveal(self, uids: frozenset[str]) -> None:
        assert uids == self.hidden

    def wake_all(self) -> None:
        for name in self._names:
            self._queue.add(JobKey(NAMESPACE, name))

    def resync(self, now: datetime) -> None:
        self.wake_all()


class Replica:
    """A runtime whose reconciles await in all the ways that real ones do."""

    def __init__(self, names: Sequence[str]) -> None:
        self.api = Api()
        self.stop = asyncio.Event()
        self.checks: list[float] = []
        """When `check` allowed writes."""
        self.is_frozen = False
        """Whether its time has jumped."""
        self._clock = VirtualClock()
        client: Any = self.api
        loss = Loss()
        self.election = Election(
            client=client,
            namespace=NAMESPACE,
            name=LEASE[2],
            identity="a",
            timing=Timing(),
            clock=self._clock,
            rng=Random(1),
            loss=loss,
        )
        queue = KeyQueue[JobKey]()
        caches: Any = {DIJOBS: Cache()}
        informers: Any = Informers(queue, names)
        self.runtime = Runtime(
            caches=caches,
            informers=informers,
            queue=queue,
            controller=Controller(
                reconcile=self._reconcile,
                report=self._report,
                queue=queue,
                backoff=KeyedBackoff(minimum=0.1, maximum=15, rng=Random(1)),
                workers=len(BUSY),
                loss=loss,
                monotonic=self._clock.monotonic,
                observer=METRICS,
            ),
            recorder=EventRecorder(
                client=client, clock=self._clock, instance="a", observer=METRICS
            ),
            kueue=NoKueue(),
            polled=(),
            scope=Claim(
                client=client,
                release=NAMESPACE,
                watched=NAMESPACE,
                timing=ClaimTiming(),
                clock=self._clock,
                rng=Random(1),
                loss=loss,
            ),
            leadership=self.election,
            duties={"duty": self._duty} if names == BUSY else {},
            supervisor=Supervisor(clock=self._clock, rng=Random(1), observer=METRICS, loss=loss),
            loss=loss,
            sync_period=3.0,
            clock=self._clock,
        )

    def end(self) -> None:
        """Stop it as SIGTERM does."""
        self.stop.set()

    def _check(self) -> None:
        self.election.check()
        self.checks.append(self._clock.monotonic())

    async def _write(self, name: str) -> None:
        await self.api.patch(PODS, name, {"metadata": {"labels": {"a": "b"}}}, NAMESPACE)

    async def _reconcile(self, key: JobKey) -> float | None:
        match key.name:
            case "spreads":
                self._check()
                await spread(range(6), self._write_one)
            case "sleeps":
                self._check()
                await self._write(key.name)
                await self._clock.sleep(0.4)
                self._check()
                await self._write(key.name)
            case "catches":
                await self._catch(key.name)
            case "hangs":
                self._check()
                await self._write(key.name)
                await asyncio.Event().wait()
            case _:
                await self.api.get(PODS, key.name, NAMESPACE)
                self._check()
                await self._write(key.name)
        return 1.0

    async def _write_one(self, _: int) -> bool:
        await self._write("spreads")
        return True

    async def _catch(self, name: str) -> None:
        """Take every error for one of this object, as code does that must go on to the next."""
        for _ in range(3):
            try:
                self._check()
                await self._write(name)
            except Exception:
                await self._clock.sleep(0.1)

    async def _report(self, key: JobKey, _: Exception) -> None:
        self._check()
        await self._write(key.name)

    async def _duty(self) -> None:
        while True:
            await self._clock.sleep(0.3)
            try:
                self._check()
                await self.api.get(PODS, "writes", NAMESPACE)
            except ApiError:
                continue


@dataclass(slots=True, kw_only=True)
class Course:
    """What a run did after its fault.

    Attributes:
        steps: that the loop took, up to the replica's end.
        where: what each task awaited at the fault.
        wrong: what must not happen.
    """

    steps: int = 0
    where: str = "the fault did not happen"
    wrong: tuple[str, ...] = ()


Fault = Callable[[Loop, Replica], None]


def stop(_: Loop, replica: Replica) -> None:
    replica.end()


def freeze_beside_a_standby(loop: Loop, replica: Replica) -> None:
    freeze_alone(loop, replica)
    replica.api.hand_to_another()


def freeze_alone(loop: Loop, replica: Replica) -> None:
    loop.jump(FREEZE)
    replica.is_frozen = True


def course(names: Sequence[str], fault: Fault | None = None, step: int = 0) -> Course:
    """Run a replica, with a fault before one of its steps."""
    found = Course()
    replicas: list[Replica] = []
    struck: list[tuple[float, bool]] = []

    def strike() -> None:
        assert fault is not None
        (replica,) = replicas
        struck.append((loop.time(), replica.election.holds()))
        found.where = awaited()
        fault(loop, replica)

    async def main() -> None:
        replica = Replica(names)
        replicas.append(replica)
        running = asyncio.create_task(replica.runtime.run(replica.stop), name="runtime")
        loop.begin()
        await asyncio.wait([running], timeout=AT_WORK)
        if struck:
            # Time jumped, and the timer of the wait was due before those of the replica.
            await asyncio.wait([running], timeout=END)
        went_on = bool(struck) and not running.done() and not replica.stop.is_set()
        if not replica.stop.is_set():
            replica.end()
        before = len(struck)
        ended, _ = await asyncio.wait([running], timeout=END)
        if len(struck) > before:
            ended, _ = await asyncio.wait([running], timeout=END)
        found.steps = loop.steps
        if ended:
            found.wrong = tuple(wrong(replica, running, went_on=went_on, struck=struck))
        else:
            found.wrong = (f"it does not end within {END:g} s; now {awaited()}",)
        await clear()

    loop = Loop(step, strike)
    with capture_logs(), closing(loop):
        loop.run_until_complete(main())
    return found


async def clear() -> None:
    """End what is left, also of a replica that loses cancellations; the run has been judged."""
    for _ in range(10):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=60)


def wrong(
    replica: Replica,
    running: asyncio.Task[None],
    *,
    went_on: bool,
    struck: list[tuple[float, bool]],
) -> Iterator[str]:
    """Name everything that must not have happened to a replica that has ended."""
    error = running.exception()
    if error is not None and not isinstance(error, NotLeading):
        yield f"it ends with {error!r}"
    left = asyncio.all_tasks() - {asyncio.current_task(), running}
    if left:
        yield f"tasks are left: {sorted(task.get_name() for task in left)}"
    if not replica.is_frozen and replica.api.holder == "a":
        yield "the lease is not given back"
    if replica.api.holder != "b":
        return
    ((at, held),) = struck
    if held and went_on:
        yield "it goes on without the lease"
    late = [when - at for when in replica.checks if when > at]
    if held and late:
        yield f"writes were allowed {late[0]:.3f} s after the start of the freeze"
    unseen = [name for when, name in replica.api.writes if when > at + FREEZE + NOTICE]
    if held and unseen:
        yield f"{unseen} were written long after the thaw"


def awaited() -> str:
    """Return the functions that each task awaits, outermost first, one task on a line."""
    lines = []
    for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
        names, each = list[str](), cast(object, task.get_coro())
        while (frame := getattr(each, "cr_frame", None)) is not None:
            names.append(f"{frame.f_code.co_name}:{frame.f_lineno}")
            each = getattr(each, "cr_await", None)
        lines.append(f"  {task.get_name()}: {' > '.join(names)}")
    return "\n".join(["tasks that await:", *lines])


@pytest.fixture(autouse=True)
def collector_as_before() -> Iterator[None]:
    """A replica changes the collector of its process."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("names", [BUSY, IDLE], ids=["busy", "idle"])
@pytest.mark.parametrize("fault", [stop, freeze_beside_a_standby, freeze_alone])
def test_a_replica_ends_in_time_after_a_fault_at_any_step(
    fault: Fault, names: Sequence[str]
) -> None:
    clean = course(names)
    assert not clean.wrong
    failures = []
    for step in range(1, clean.steps + 1, by_profile(brief=5, usual=1, thorough=1)):
        found = course(names, fault, step)
        if found.wrong:
            failures.append(f"step {step} of {clean.steps}: {found.wrong}\n{found.where}")
        if len(failures) == 3:
            break
    assert not failures, "\n\n".join(failures)
