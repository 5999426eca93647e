"""What jobs cost the operator's own code, counted and not timed.

    python -m tools.benchmarks.operator.life --replicas 4

The operator's caches, queue and reconciler run before an API server in the same process, which
keeps objects in a dict. There is no socket. Jobs start, get ready and end all together, so each
run makes the same calls of functions, whatever else the machine does. With `--apart` their pods get
ready and end one after the other, which takes more reconciles. Times are printed too; they are of
use on a quiet machine only, and include the API server's.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from pstats import Stats
from typing import Any
from urllib.parse import urlsplit

import orjson
import uvloop

from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from di_kube.http import Answer
from di_kube.resources import DIJOBS, PODS
from di_operator.config import load_config
from di_operator.leadership.election import SoleReplica
from di_operator.metrics.metrics import Metrics
from di_operator.process.clock import SystemClock
from di_operator.process.controller import Controller
from di_operator.process.lease_state import Loss
from di_operator.runtime import COLLECT_AFTER
from di_operator.wiring import Base, Observed, beside, controller, observe, reading
from di_service.logs import configure_logs
from di_service.tracing import tracing
from tools.benchmarks import workloads

Object = dict[str, Any]
_NAMESPACE = "bench"
_JOBS = 15
"""Jobs of a run; of more than 33 in all, the budget of events would drop some."""
_NOW = "2026-01-01T00:00:00Z"
_QUIET = 1.2
"""Seconds without a request after which nothing is left to do; the operator waits for less."""
_PADDING = {"managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": "x" * 2400}}]}
"""A real pod has so many bytes that no decision reads."""


class MemoryServer:
    """An API server in the place of `Connections`: writes, lists and watches of jobs and pods.

    Attributes:
        objects: by plural, then by name.
        requests: how many were answered, by method and plural.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Object]] = {}
        self.requests: Counter[str] = Counter()
        self._watches: dict[str, list[asyncio.Queue[bytes]]] = {}
        self._versions = itertools.count(1000)

    async def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        connect_seconds: float,
    ) -> Answer:
        """Answer at once, after other tasks had a turn."""
        await asyncio.sleep(0)
        plural, name, subresource = _target(path)
        self.requests[f"{method} {plural}"] += 1
        found = self.objects.setdefault(plural, {})
        if method == "GET" and not name:
            is_served = plural in (DIJOBS.plural, PODS.plural, "services", "configmaps")
            items = {"items": [*found.values()], "metadata": {"resourceVersion": self._version()}}
            return _answer(200, items) if is_served else _answer(404, {"code": 404})
        if method == "DELETE":
            gone = found.pop(name)
            gone["metadata"]["resourceVersion"] = self._version()
            self._tell(plural, "DELETED", gone)
            return _answer(200, {"kind": "Status", "status": "Success"})
        written: Object = orjson.loads(body or b"{}")
        if subresource == "status":
            written = {**found[name], "status": written["status"]}
        return _answer(200, written if plural == "events" else self.put(plural, written))

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str], *, connect_seconds: float, seconds: float
    ) -> AsyncIterator[_Watch]:
        """Watch a collection from the beginning."""
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        plural, _, _ = _target(path)
        self._watches.setdefault(plural, []).append(queue)
        end = {
            "resourceVersion": self._version(),
            "annotations": {"k8s.io/initial-events-end": "true"},
        }
        queue.put_nowait(_line("BOOKMARK", {"metadata": end}))
        yield _Watch(queue)

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def put(self, plural: str, body: Object) -> Object:
        """Store an object as the API server does, and send it to the watches."""
        found = self.objects.setdefault(plural, {})
        name = body["metadata"]["name"]
        metadata = {**body["metadata"], "resourceVersion": self._version()}
        if name not in found:
            uid = f"00000000-0000-4000-8000-{next(self._versions):012d}"
            metadata |= {"uid": uid, "creationTimestamp": _NOW, "generation": 1, **_PADDING}
        kind = "MODIFIED" if name in found else "ADDED"
        status = {"phase": "Pending"} if plural == PODS.plural else {}
        found[name] = {"status": status, **body, "metadata": metadata}
        self._tell(plural, kind, found[name])
        return found[name]

    def _version(self) -> str:
        return str(next(self._versions))

    def _tell(self, plural: str, kind: str, body: Object) -> None:
        for queue in self._watches.get(plural, ()):
            queue.put_nowait(_line(kind, body))


class _Watch:
    """An open stream of events."""

    code = 200
    headers: Mapping[str, str] = {}

    def __init__(self, queue: asyncio.Queue[bytes]) -> None:
        self._queue = queue

    async def parts(self, *, silence: float | None = None) -> AsyncGenerator[bytes, None]:
        while True:
            yield await self._queue.get()


def _target(path: str) -> tuple[str, str, str]:
    """Plural, name and subresource of a URL; empty for what it does not have."""
    parts = urlsplit(path).path.strip("/").split("/")
    parts = parts[2 if parts[0] == "api" else 3 :]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    plural, name, subresource, *_ = [*parts, "", "", ""]
    return plural, name, subresource


def _line(kind: str, body: Object) -> bytes:
    return orjson.dumps({"type": kind, "object": body}) + b"\n"


def _answer(code: int, body: Object) -> Answer:
    return Answer(code, {}, orjson.dumps(body))


def _status(phase: str) -> Object:
    """What a kubelet reports of a pod that is ready (Running) or has ended well (Succeeded)."""
    is_up = phase == "Running"
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": _NOW, "finishedAt": _NOW}
    state = {"running": {"startedAt": _NOW}} if is_up else {"terminated": ended}
    types = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": phase,
        "podIP": "10.0.0.1",
        "startTime": _NOW,
        "conditions": [{"type": each, "status": str(is_up)} for each in types],
        "containerStatuses": [
            {"name": "di-container", "state": state, "ready": is_up, "restartCount": 0}
        ],
    }


class Bench:
    """The operator before that API server."""

    def __init__(self, server: MemoryServer, seen: Observed, work: Controller) -> None:
        self._server = server
        self._seen = seen
        self._work = work
        self._numbers = itertools.count()

    async def run(self, jobs: int, replicas: int, apart: float = 0.0) -> None:
        """Let so many jobs live, all at the same step; the changes of pods are so many seconds
        apart.
        """
        names = [f"job-{next(self._numbers):06d}" for _ in range(jobs)]
        for name in names:
            body = workloads.job(name, replicas)
            body["metadata"]["namespace"] = _NAMESPACE
            self._server.put(DIJOBS.plural, body)
        await self._until(names, "Starting")
        for phase in ("Running", "Succeeded"):
            pods = self._server.objects[PODS.plural]
            for name in [each for each in pods if each.rpartition("-work-")[0] in names]:
                self._server.put(PODS.plural, {**pods[name], "status": _status(phase)})
                if apart:
                    await asyncio.sleep(apart)
            await self._until(names, phase)

    async def _until(self, names: Sequence[str], phase: str) -> None:
        """Wait until the jobs are in a phase and nothing is left to do for them."""
        jobs = self._server.objects[DIJOBS.plural]
        wanted = dict.fromkeys(names, phase)
        before = -1
        while True:
            await asyncio.sleep(_QUIET)
            found = {name: (jobs[name].get("status") or {}).get("phase") for name in names}
            now = self._server.requests.total()
            if found == wanted and before == now and not len(self._seen.queue):
                return
            before = now


@asynccontextmanager
async def _bench(server: MemoryServer) -> AsyncIterator[Bench]:
    environment = {
        "DI_OPERATOR_NAMESPACE": _NAMESPACE,
        "DI_OPERATOR_WATCH_NAMESPACE": _NAMESPACE,
        "DI_OPERATOR_LEADER_ELECT": "false",
    }
    config = load_config([], environment, random_identity=lambda: "bench")
    client = KubeClient(config=KubeConfig(server="http://memory"))
    client._connections = server  # type: ignore[assignment]  # the part of it that is used
    base = Base(
        config=config,
        client=client,
        clock=SystemClock(),
        rng=random.Random(1),
        loss=Loss(),
        leadership=SoleReplica(),
        metrics=Metrics(),
    )
    seen = observe(base)
    others = beside(base, seen)
    traced = tracing(None, service="bench", ratio=0.0)
    work = controller(base, seen, others, reading(base, seen, others), traced)
    runs = [cache.run() for cache in seen.caches.values()]
    tasks = [asyncio.create_task(run) for run in (*runs, seen.kueue.run())]
    for cache in seen.caches.values():
        await cache.synced.wait()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    tasks += [asyncio.create_task(run) for run in (work.run(), seen.recorder.run())]
    try:
        yield Bench(server, seen, work)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _main(jobs: int, replicas: int, apart: float, profile: Path | None) -> None:
    server = MemoryServer()
    with open(os.devnull, "w") as nowhere:
        configure_logs("info", nowhere)
        async with _bench(server) as bench:
            await bench.run(2, replicas)
            server.requests.clear()
            began = time.process_time()
            await bench.run(jobs, replicas, apart)
            took = time.process_time() - began
            requests = {key: round(n / jobs, 2) for key, n in server.requests.items()}
            counting = cProfile.Profile()
            with counting:
                await bench.run(jobs, replicas, apart)
    if profile is not None:
        counting.dump_stats(profile)
    calls = Stats(counting).total_calls  # type: ignore[attr-defined]  # not in its stubs
    print(f"{calls / jobs:,.0f} calls and {1000 * took / jobs:.2f} ms a job; requests: {requests}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What jobs cost the operator's own code.")
    parser.add_argument("--jobs", type=int, default=_JOBS)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--apart", type=float, default=0.0, help="seconds between changes of pods")
    parser.add_argument("--profile", type=Path, help="where the profile goes, for pstats")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(options.jobs, options.replicas, options.apart, options.profile))
