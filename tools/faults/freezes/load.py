"""Freeze leaders while jobs start, and find out which replicas are zombies afterwards."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from di_kube.config import KubeConfig
from di_kube.errors import NotFound
from di_kube.resources import DIJOBS, LEASES
from tests.integration.operator_testbed import job, task
from tests.waiting import START_SECONDS, wait_until_async
from tools.faults.footprint import complaints
from tools.faults.scene import Replica, Scene, scene
from tools.faults.testbed import Testbed, prepared

FREEZE_SECONDS: Final = 20.0
"""Longer than a lease (15 s) and than the 16.2 s after which a standby replica leads."""
PODS_PER_JOB: Final = 2
LANES: Final = 4
"""Freezes side by side; each of them mostly waits."""
_LEASE: Final = "di-operator"
# Seconds between the pod that the freeze waits for and the freeze, at most.
_LONGEST_DELAY: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Seconds after which a replica counts as a zombie.

    Attributes:
        gives_up: from the thaw until a replica without the lease has ended.
        ends: from SIGTERM until the process has ended.
        leads: until another replica leads, after the leader has ended.
        jobs_run: from the thaw until all jobs run.
    """

    gives_up: float = 60.0
    ends: float = 30.0
    leads: float = 30.0
    jobs_run: float = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When to freeze: ``delay`` seconds after the job's namespace has had so many pods."""

    pods: int
    delay: float


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What followed from one freeze. Times are in seconds.

    Attributes:
        exit_code: of the frozen process; None if it went on as leader, or did not end.
        ended: from the thaw until the frozen process ended.
        succeeded: from the freeze until another replica wrote the lease; None if none did.
        renewed: from the thaw until any replica wrote the lease.
        jobs_ran: from the thaw until all jobs ran; 0 if they did before.
        late_writes: writes of the frozen process after the thaw, leases and events left out.
        zombies: identities.
        wrong: everything that must not happen, zombies included.
    """

    namespace: str
    moment: Moment
    exit_code: int | None = None
    ended: float | None = None
    succeeded: float | None = None
    renewed: float | None = None
    jobs_ran: float | None = None
    late_writes: int = 0
    zombies: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def moments(count: int, *, jobs: int, seed: int) -> tuple[Moment, ...]:
    """Choose moments while jobs start, at random but the same for the same seed."""
    rng = random.Random(seed)
    return tuple(
        Moment(pods=rng.randint(0, jobs * PODS_PER_JOB - 1), delay=rng.uniform(0, _LONGEST_DELAY))
        for _ in range(count)
    )


def freeze_leaders(
    config: KubeConfig,
    folder: Path,
    chosen: Sequence[Moment],
    *,
    jobs: int,
    replicas: int = 2,
    lanes: int = LANES,
    bounds: Bounds = Bounds(),
    on_outcome: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Freeze a leader at each of the moments, in a namespace of its own."""

    async def main() -> list[Outcome]:
        async with prepared(config, folder / "runs") as testbed:
            free_lanes = asyncio.Semaphore(lanes)

            async def one(moment: Moment) -> Outcome:
                async with free_lanes:
                    outcome = await _freeze(testbed, moment, jobs, replicas, bounds)
                    on_outcome(outcome)
                    return outcome

            return list(await asyncio.gather(*map(one, chosen)))

    return asyncio.run(main())


async def _freeze(
    testbed: Testbed, moment: Moment, jobs: int, replicas: int, bounds: Bounds
) -> Outcome:
    async with scene(testbed, replicas=replicas, title=f"freeze at {moment}") as stage:
        outcome = Outcome(namespace=stage.namespace, moment=moment)
        await stage.standbys_wait()
        await _submit(stage, jobs)
        await _until_pods(stage, moment)
        lease = _LeaseWatch(stage)
        following = asyncio.create_task(lease.follow())
        try:
            await _freeze_and_thaw(stage, outcome, lease, jobs, bounds)
            await _stop_all(stage, outcome, lease, bounds)
        finally:
            following.cancel()
            for replica in stage.replicas:
                replica.retire()
                replica.component.signal(signal.SIGKILL)
        if any(count > 1 for count in stage.created().values()):
            outcome.wrong.append("a pod was created twice")
        outcome.wrong += [f"log: {line}" for line in complaints(stage.logs)]
    return outcome


async def _submit(stage: Scene, jobs: int) -> None:
    client = stage.testbed.client
    bodies = [job(f"job-{number}", task("work", PODS_PER_JOB)) for number in range(jobs)]
    await asyncio.gather(*(client.create(DIJOBS, body, stage.namespace) for body in bodies))


async def _until_pods(stage: Scene, moment: Moment) -> None:
    created, namespace = stage.testbed.created, stage.namespace

    def are_there() -> bool:
        return sum(place == namespace for place, _ in created) >= moment.pods

    await wait_until_async(are_there, what=f"{moment.pods} pods", every=0.005)
    await asyncio.sleep(moment.delay)


class _LeaseWatch:
    """Reads the Lease of a scene's replicas again and again, from the API server itself."""

    def __init__(self, stage: Scene) -> None:
        self._stage = stage
        self.writes: list[tuple[float, str]] = []
        """When a new renewal was seen first, by the monotonic clock, and the holder."""

    async def follow(self) -> None:
        known: object = None
        while True:
            found = await self._read()
            if found is not None and found != known:
                self.writes.append((time.monotonic(), found[0]))
                known = found
            await asyncio.sleep(0.05)

    @property
    def holder(self) -> str:
        """The identity in the last renewal; empty if the lease was given back."""
        return self.writes[-1][1] if self.writes else ""

    def since(self, at: float, *, by: Callable[[str], bool] = bool) -> float | None:
        """Seconds from a time to the next renewal by one of the named holders."""
        return next((when - at for when, who in self.writes if when > at and by(who)), None)

    async def _read(self) -> tuple[str, str] | None:
        try:
            lease = await self._stage.testbed.client.get(LEASES, _LEASE, self._stage.namespace)
        except NotFound:
            return None
        spec = lease["spec"]
        return str(spec.get("holderIdentity") or ""), str(spec.get("renewTime"))


async def _freeze_and_thaw(
    stage: Scene, outcome: Outcome, lease: _LeaseWatch, jobs: int, bounds: Bounds
) -> None:
    """Freeze the leader and see what it, the others and the jobs do in the minute after that."""
    await stage.until(
        "a leader", lambda: lease.holder in {each.identity for each in stage.replicas}
    )
    frozen = next(each for each in stage.replicas if each.identity == lease.holder)
    life = frozen.component.life
    began = time.monotonic()
    life.signal(signal.SIGSTOP)
    await asyncio.sleep(FREEZE_SECONDS)
    thawed = time.monotonic()
    life.signal(signal.SIGCONT)

    def others(holder: str) -> bool:
        return holder not in ("", frozen.identity)

    def is_decided() -> bool:
        return life.exit_code is not None or lease.holder == frozen.identity

    def all_run() -> bool:
        phases = [
            (found.get("status") or {}).get("phase")
            for found in stage.testbed.jobs.items()
            if found["metadata"]["namespace"] == stage.namespace
        ]
        return phases == ["Running"] * jobs

    async def decision() -> None:
        if not await _in_time(is_decided, thawed + bounds.gives_up):
            outcome.wrong.append(f"{frozen.identity} neither leads nor ends")
        outcome.exit_code = life.exit_code
        if life.ended_at is not None:
            outcome.ended = max(0.0, life.ended_at - thawed)
        elif is_decided():
            outcome.exit_code = None

    async def run() -> None:
        if await _in_time(all_run, thawed + bounds.jobs_run):
            outcome.jobs_ran = time.monotonic() - thawed
        else:
            outcome.wrong.append("the jobs do not all run")

    await asyncio.gather(decision(), run())
    if not await _in_time(lambda: lease.since(thawed) is not None, thawed + bounds.gives_up):
        outcome.wrong.append("no replica renews the lease")
    outcome.succeeded = lease.since(began, by=others)
    outcome.renewed = lease.since(thawed)
    outcome.late_writes = _late_writes(frozen, thawed, life.ended_at or time.monotonic())
    if outcome.exit_code not in (None, 1):
        outcome.wrong.append(f"{frozen.identity} ended with {outcome.exit_code}, not 1")


async def _stop_all(stage: Scene, outcome: Outcome, lease: _LeaseWatch, bounds: Bounds) -> None:
    """Stop the leader, then the replica that takes over, then the others."""
    left = list(stage.replicas)
    while left:
        # One that has just lost the lease is started again, which takes long on a busy machine.
        if not await _in_time(
            lambda: all(each.stands_by for each in left), time.monotonic() + START_SECONDS
        ):
            waiting = [each.identity for each in left if not each.stands_by]
            outcome.wrong.append(f"{waiting} run and do not ask for the lease, or do not start")
        leader = next((each for each in left if each.identity == lease.holder), None)
        if leader is None and await _in_time(
            lambda: lease.holder in {each.identity for each in left},
            time.monotonic() + bounds.leads,
        ):
            continue
        if leader is None:
            outcome.wrong.append(f"none of {[each.identity for each in left]} takes the lease")
        stopped = leader or left[0]
        left.remove(stopped)
        await _stop(stopped, outcome, bounds)
        if leader is None and stopped.identity not in outcome.zombies:
            outcome.zombies.append(stopped.identity)


async def _stop(replica: Replica, outcome: Outcome, bounds: Bounds) -> None:
    replica.retire()
    life = replica.component.life
    life.signal(signal.SIGTERM)
    if not await _in_time(lambda: life.exit_code is not None, time.monotonic() + bounds.ends):
        outcome.zombies.append(replica.identity)
        outcome.wrong.append(f"{replica.identity} does not end {bounds.ends:g} s after SIGTERM")
        life.signal(signal.SIGKILL)
    elif life.exit_code != 0:
        outcome.wrong.append(f"{replica.identity} ended with {life.exit_code} after SIGTERM")


def _late_writes(replica: Replica, since: float, until: float) -> int:
    return sum(
        done.request.is_write
        and done.request.what not in ("leases", "events")
        and 200 <= done.code < 300
        and since < done.at < until
        for done in replica.proxy.journal.requests
    )


async def _in_time(test: Callable[[], object], end: float) -> bool:
    while not test():
        if time.monotonic() >= end:
            return False
        await asyncio.sleep(0.02)
    return True
