"""The whole way of a round of the allocator, from the cluster's objects to what jobs are told.

    python -m tools.benchmarks.allocator.rounds JOBS NODES < REPORTS

Run by `allocator_speed`, a process for each measurement. The watches of the operator, with its
trims, are shown jobs that all report (what REPORTS says, a JSON list, no two exactly alike), their
pods, nodes, and fifteen pods of others on each node. Four fifths of the GPUs are in use. Rounds:
the first one; one after a period in which nothing changed, once all that was granted has come to
be; one for a job that arrives; one for which every job has reported anew. Prints JSON: processor
time of each in seconds, that of the longest hold of the event loop, and the process's memory. Specs
are read beforehand, as the first reconcile of each job reads them. Lines of the operator's log come
before the JSON, which is the last line.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypedDict, cast

import uvloop

from di_kube.cache import WatchCache
from di_kube.client import KubeClient
from di_kube.resources import DIJOBS, NODES, PODS, Resource
from di_operator.allocator.policies.goodput import GoodputPolicy
from di_operator.allocator_loop import SETTLE, Scheduler
from di_operator.cluster import informer_state
from di_operator.lifecycle.observed.specs import SpecCache
from di_operator.metrics.metrics import Metrics
from di_operator.wiring import REMEMBERED_SPECS
from di_service.logs import configure_logs
from tools.benchmarks.allocator.scene import BEGIN, Scene, time_of
from tools.benchmarks.operator.holds import Recorder, longest, read
from tools.benchmarks.processes import memory_mib, peak_memory_mib

Object = dict[str, Any]

PERIOD: Final = 60.0
_END: Final = {"k8s.io/initial-events-end": "true"}


class Rounds(TypedDict):
    """Processor time in seconds, memory in MiB. `held` is processor time of the loop's thread,
    `held_passed` the time that passed in the longest hold, other programs' share included."""

    fresh: float
    unchanged: float
    arrival: float
    reported: float
    held: float
    held_passed: float
    filled_mib: float
    peak_mib: float


class Steps:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._sleepers: list[tuple[float, float, asyncio.Event]] = []
        self._slept = asyncio.Event()

    def now(self) -> datetime:
        # Slower than the periods: reports must not become stale while the cluster settles.
        return BEGIN + timedelta(seconds=self._passed / PERIOD)

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        sleeper = (seconds, self._passed + seconds, over)
        self._sleepers.append(sleeper)
        self._slept.set()
        try:
            await over.wait()
        finally:
            self._sleepers.remove(sleeper)

    async def asleep(self, *, settling: bool) -> None:
        """Wait until somebody sleeps, to let others come along or else for longer."""
        while not any((seconds == SETTLE) == settling for seconds, _, _ in self._sleepers):
            self._slept.clear()
            await self._slept.wait()

    def advance(self, seconds: float) -> None:
        self._passed += seconds
        for _, until, over in self._sleepers:
            if until <= self._passed:
                over.set()


class Shown:
    """A collection that is shown by a watch: what there is, then what is put."""

    def __init__(self, objects: Iterator[Object]) -> None:
        self._objects = objects
        self._news: asyncio.Queue[tuple[str, Object]] = asyncio.Queue()
        self._version = 0

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[tuple[str, Object], None]:
        for found in self._objects:
            yield "ADDED", self._numbered(found)
        self._version += 1
        end = {"resourceVersion": str(self._version), "annotations": _END}
        yield "BOOKMARK", {"metadata": end}
        while True:
            kind, found = await self._news.get()
            yield kind, self._numbered(found)
            self._news.task_done()

    def put(self, kind: str, found: Object) -> None:
        self._news.put_nowait((kind, found))

    async def taken(self) -> None:
        await self._news.join()

    def _numbered(self, found: Object) -> Object:
        self._version += 1
        # As from the wire: nothing is shared with what was shown before.
        copy: Object = json.loads(json.dumps(found))
        copy["metadata"]["resourceVersion"] = str(self._version)
        return copy


@dataclass(slots=True, kw_only=True)
class Stage:
    """The scheduler at work on a scene."""

    scene: Scene
    scheduler: Scheduler
    clock: Steps
    shown: Mapping[Resource, Shown]

    async def look(self) -> None:
        """Let the round that is due come to its end."""
        await self.clock.asleep(settling=True)
        self.clock.advance(SETTLE)
        await self.clock.asleep(settling=False)

    async def period(self) -> None:
        self.clock.advance(PERIOD)
        await self.look()

    async def arrive(self, number: int) -> None:
        name = self.scene.make_job(number, (), reports=False)
        self.shown[DIJOBS].put("ADDED", self.scene.bodies[name])
        await self.shown[DIJOBS].taken()
        await self.look()

    async def report(self) -> None:
        for body in self.scene.bodies.values():
            body["status"]["profilings"] = self.scene.report(self.clock.monotonic())
            self.shown[DIJOBS].put("MODIFIED", body)
        await self.shown[DIJOBS].taken()

    async def settle(self) -> None:
        """Let what is granted come to be, until nothing changes any more."""
        for _ in range(20):
            moved = sum([self._follow(name) for name in self.scene.bodies])
            if not moved:
                return
            await self.shown[PODS].taken()
            await self.shown[DIJOBS].taken()
            # What has come to be may be no news.
            self.clock.advance(PERIOD)
            await self.look()
        raise AssertionError("the cluster does not come to rest")

    def _follow(self, name: str) -> bool:
        body = self.scene.bodies[name]
        told = self.scheduler.grant(body).placement
        if told is None or list(told.get("learner", ())) == list(
            (body["status"].get("placement") or {}).get("learner", ())
        ):
            return False
        for pod in self.scene.pods_of(name):
            self.shown[PODS].put("DELETED", pod)
        body["status"] |= {
            "placement": {"learner": list(told.get("learner", ()))},
            "placementTime": time_of(self.clock.monotonic()),
        }
        for pod in self.scene.pods_of(name):
            self.shown[PODS].put("ADDED", pod)
        self.shown[DIJOBS].put("MODIFIED", body)
        return True


@asynccontextmanager
async def staged(scene: Scene) -> AsyncGenerator[Stage, None]:
    """A scheduler whose watches are filled, and that has not begun."""
    clock = Steps()
    shown = {
        DIJOBS: Shown(iter(scene.bodies.values())),
        PODS: Shown(scene.pods()),
        NODES: Shown(scene.rooms()),
    }
    others = Shown(scene.others())
    read_spec = SpecCache(size=REMEMBERED_SPECS)
    jobs = _cache(shown[DIJOBS], DIJOBS, informer_state.transform_job)
    by_job = {informer_state.INDEX_JOB: informer_state.index_job}
    pods = _cache(shown[PODS], PODS, informer_state.transform_pod, indexes=by_job)
    nodes = _cache(shown[NODES], NODES, informer_state.transform_node)
    strangers = _cache(others, PODS, informer_state.transform_other_pod)
    scheduler = Scheduler(
        policy=GoodputPolicy(),
        caches={DIJOBS: jobs, PODS: pods},
        nodes=nodes,
        others=strangers,
        read_spec=read_spec,
        wake=lambda _key, _delay: None,
        period=PERIOD,
        clock=clock,
        observer=Metrics(),
    )
    caches = (jobs, pods, nodes, strangers)
    tasks = [asyncio.create_task(cache.run()) for cache in caches]
    try:
        for cache in caches:
            await cache.synced.wait()
        # The first reconcile of each job reads its spec, the allocator finds it read.
        for body in jobs.items():
            read_spec(body)
        yield Stage(scene=scene, scheduler=scheduler, clock=clock, shown=shown)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def measure(scene: Scene, *, holds: Path | None) -> Rounds:
    """Go through all rounds. With `holds`, the loop is watched, which takes time of its own."""
    times: dict[str, float] = {}
    begin = time.monotonic()
    async with staged(scene) as stage:
        gc.collect()
        gc.freeze()
        filled = memory_mib(os.getpid())
        recording = asyncio.create_task(Recorder(holds).run()) if holds else None
        began = time.process_time()
        running = asyncio.create_task(stage.scheduler.run())
        spans = [time.monotonic()]
        await stage.clock.asleep(settling=False)
        times["fresh"] = time.process_time() - began
        spans.append(time.monotonic())
        await stage.settle()
        for _ in range(3):
            before = time.monotonic()
            began = time.process_time()
            await stage.period()
            _least(times, "unchanged", time.process_time() - began)
            spans += [before, time.monotonic()]
        for number in range(3):
            before = time.monotonic()
            began = time.process_time()
            await stage.arrive(scene.jobs + number)
            _least(times, "arrival", time.process_time() - began)
            spans += [before, time.monotonic()]
        await stage.report()
        began = time.process_time()
        before = time.monotonic()
        await stage.period()
        times["reported"] = time.process_time() - began
        spans += [before, time.monotonic()]
        for task in (running, recording):
            if task is not None:
                task.cancel()
        await asyncio.gather(running, return_exceptions=True)
    found = read(holds) if holds else []
    worst = [
        hold
        for since, until in zip(spans[::2], spans[1::2], strict=True)
        if (hold := longest(found, max(since, begin), until))
    ]
    for hold in worst:
        print(hold, file=sys.stderr)
    return {
        "fresh": times["fresh"],
        "unchanged": times["unchanged"],
        "arrival": times["arrival"],
        "reported": times["reported"],
        "held": max((hold.used for hold in worst), default=0.0),
        "held_passed": max((hold.passed for hold in worst), default=0.0),
        "filled_mib": filled,
        "peak_mib": peak_memory_mib(os.getpid()),
    }


def _least(times: dict[str, float], name: str, seconds: float) -> None:
    times[name] = min(seconds, times.get(name, seconds))


def _cache(shown: Shown, resource: Resource, transform: Any, **parts: Any) -> WatchCache:
    client = cast("KubeClient", shown)
    parts |= {"clock": time.monotonic, "rng": random.Random(1)}
    return WatchCache(client, resource, transform=transform, **parts)


def main(arguments: Sequence[str]) -> None:
    """Measure once and print the result."""
    jobs, nodes, watched = int(arguments[0]), int(arguments[1]), arguments[2:] == ["--holds"]
    configure_logs("info")
    scene = Scene(jobs, nodes, json.load(sys.stdin))
    scene.make_jobs()
    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        holds = Path(folder) / "holds" if watched else None
        if holds:
            holds.touch()
        result = runner.run(measure(scene, holds=holds))
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
