"""How long a program waits for its next data shard, and how many shards a second all workers get.

    python -m tools.benchmarks.servers.data_shards [--workers 1000] [--servers 1] [--batch 64]

The pods of one job ask di-servers for shards at a fixed rate: each asks for a batch, reports it as
done with its next request, and so on. The time of a request is that until its whole answer has
come. Pods are objects without a kubelet; their requests come from their own addresses.

Twenty workers are programs with the package, in a process beside. Their time is that of a call for
the next shard, which the package has mostly asked for before. Their first half does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import re
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

from di_kube.config import load_config
from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient
from di_orchestrator.data_shards.requests import Plan, Remote
from di_orchestrator.data_shards.worker import Worker
from di_orchestrator.server.exchange import Answer, Request, Silence
from tests.integration.di_server import (
    Object,
    ServerProcess,
    running_servers,
    session_from,
    set_status,
)
from tools.benchmarks import processes, samples
from tools.benchmarks.samples import Spread
from tools.benchmarks.servers.members import address_of, pods_of_a_job
from tools.benchmarks.testbed import Testbed, control_plane

WORKERS = 1000
RATE = 10_000
"""Shards a second of all workers together."""
PROGRAMS = 20
_EPOCHS = 1000
_SIZE = 10**9
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class ShardsResult(TypedDict):
    """Times in milliseconds, from the first byte of a request to the last one of its answer."""

    workers: int
    servers: int
    batch: int
    shards_per_second: float
    requests_per_second: float
    answer_ms: Spread
    program_ms: Spread
    """How long a program waits for a shard."""
    writes_per_second: float
    job_bytes: int
    """Of the job as JSON at the end, which each write puts into etcd."""
    cpu_share: float
    """Of one core, by all di-servers."""
    api_server_share: float
    """Of one core, by the API server."""
    repeated: int
    """Shards that were given out twice."""


async def measure(
    testbed: Testbed, *, workers: int, servers: int, batch: int, seconds: float
) -> ShardsResult:
    """Ask for `RATE` shards a second for so many seconds, after one round of all workers."""
    namespace = await testbed.namespace()
    with (
        tempfile.TemporaryDirectory() as folder,
        SyncKubeClient(config=load_config(str(testbed.kubeconfig))) as kube,
    ):
        job, _ = await asyncio.to_thread(pods_of_a_job, kube, namespace, workers)
        await asyncio.to_thread(set_status, kube, job, {"phase": "Running"})
        with running_servers(
            servers, Path(folder), testbed.kubeconfig, together=servers > 1, auth="optional"
        ) as running:
            path = running[0].members_of(job).removeprefix(running[0].url)
            crowd = [
                _Worker(number, path.replace("/members", "/shards/prompts"), running, batch)
                for number in range(PROGRAMS, workers)
            ]
            api_server = testbed.pids["kube-apiserver"]
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(1, mp_context=context) as beside:
                # As long as the crowd, with its first round.
                asked = (running[0].url, f"{namespace}/{job['metadata']['name']}", workers / RATE)
                whole = seconds + workers * batch / RATE
                return await _measure(
                    lambda: _stored(kube, job),
                    running,
                    api_server,
                    crowd,
                    asyncio.wrap_future(beside.submit(waits_of_programs, *asked, whole)),
                    seconds=seconds,
                )


async def _measure(
    stored: Callable[[], tuple[int, int]],
    servers: Sequence[ServerProcess],
    api_server: int,
    crowd: Sequence[_Worker],
    programs: Awaitable[list[float]],
    *,
    seconds: float,
) -> ShardsResult:
    batch = crowd[0].batch
    period = len(crowd) * batch / RATE
    await asyncio.gather(*(each.run(period, period) for each in crowd))
    for each in crowd:
        each.times.clear()
    (before, _), cpu, began = stored(), _cpu(servers), time.monotonic()
    others = processes.cpu_seconds(api_server)
    await asyncio.gather(*(each.run(period, seconds) for each in crowd))
    passed = time.monotonic() - began
    cpu, others = _cpu(servers) - cpu, processes.cpu_seconds(api_server) - others
    after, size = stored()
    times = [took for each in crowd for took in each.times]
    given = [index for each in crowd for index in each.given]
    return {
        "workers": len(crowd),
        "servers": len(servers),
        "batch": batch,
        "shards_per_second": round(len(times) * batch / passed, 1),
        "requests_per_second": round(len(times) / passed, 1),
        "answer_ms": samples.spread(times),
        "program_ms": samples.spread(await programs),
        "writes_per_second": round((after - before) / passed, 1),
        "job_bytes": size,
        "cpu_share": round(cpu / passed, 3),
        "api_server_share": round(others / passed, 3),
        "repeated": len(given) - len(set(given)),
    }


def _stored(kube: SyncKubeClient, job: Object) -> tuple[int, int]:
    """Return etcd's revision, which only the job's writes move here, and the job's bytes."""
    found = kube.get(DIJOBS, job["metadata"]["name"], job["metadata"]["namespace"])
    size = len(json.dumps(found, separators=(",", ":")))
    return int(found["metadata"]["resourceVersion"]), size


def _cpu(servers: Sequence[ServerProcess]) -> float:
    pids = [pid for server in servers for pid in processes.family(server.process.pid)]
    return sum(map(processes.cpu_seconds, pids))


class _Worker:
    """One pod's program."""

    def __init__(
        self, number: int, path: str, servers: Sequence[ServerProcess], batch: int
    ) -> None:
        self.batch = batch
        self.times: list[float] = []
        self.given: list[int] = []
        self._number = number
        self._path = path
        self._server = servers[number % len(servers)]
        self._held: list[int] = []

    async def run(self, period: float, seconds: float) -> None:
        """Ask once in each period; the workers' requests are spread evenly over it."""
        until = time.monotonic() + seconds
        due = time.monotonic() + period * (self._number * 0.618 % 1)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._server.ports[0], local_addr=(address_of(self._number), 0)
        )
        while due < until:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self._ask(reader, writer)
            due += period
        writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked: dict[str, Any] = {
            "size": _SIZE,
            "shuffle": True,
            "epochs": _EPOCHS,
            "worker": f"worker-{self._number}",
            "done": self._held,
            "number": self.batch,
        }
        body = json.dumps(asked).encode()
        head = f"POST {self._path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        began = time.perf_counter()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        found = _LENGTH.search(answer)
        assert found, answer
        body = await reader.readexactly(int(found[1]))
        self.times.append(time.perf_counter() - began)
        assert answer.startswith(b"HTTP/1.1 200 "), body
        self._held = [shard["index"] for shard in json.loads(body)["data"]["shards"]]
        self.given += self._held


def waits_of_programs(url: str, job: str, work: float, seconds: float) -> list[float]:
    """Return how long programs waited for each of their shards, in seconds.

    Args:
        job: `<namespace>/<name>`.
        work: seconds on a shard.
        seconds: how long they run; the first half does not count.
    """
    with ThreadPoolExecutor(PROGRAMS) as pool:
        found = [
            pool.submit(_program, number, url, job, work, seconds) for number in range(PROGRAMS)
        ]
        return [wait for each in found for wait in each.result()]


def _program(number: int, url: str, job: str, work: float, seconds: float) -> list[float]:
    plan = Plan(_SIZE, 1, _EPOCHS, shuffle=True, seed=0, lease_seconds=60, records="")
    waits: list[float] = []
    with session_from(address_of(number)) as session:

        def send(request: Request) -> Answer | Silence:
            try:
                found = session.request(
                    request.method,
                    f"{url}{request.path}",
                    json=request.body,
                    timeout=request.seconds,
                )
            except OSError as error:
                return Silence(str(error))
            return Answer(found.status_code, found.content)

        remote = Remote.of(job, "prompts", plan, worker=f"program-{number}", send=send)
        worker = Worker(remote, lease_seconds=60)
        began = time.monotonic()
        while (now := time.monotonic()) < began + seconds:
            piece = worker.next()
            assert piece is not None
            if now > began + seconds / 2:
                waits.append(time.monotonic() - now)
            time.sleep(work)
            worker.done(piece.index)
        worker.close()
    return waits


async def _main(options: argparse.Namespace) -> ShardsResult:
    async with control_plane(Path("out/bench/logs/data-shards"), quiet=True) as testbed:
        return await measure(
            testbed,
            workers=options.workers,
            servers=options.servers,
            batch=options.batch,
            seconds=options.seconds,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    print(json.dumps(asyncio.run(_main(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
