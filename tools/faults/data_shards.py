"""Kill workers and di-servers while the shards of a job are done.

    python -m tools.faults.data_shards --kills 500

Each worker takes shards from one of two di-servers, and notes what it has done. One kill in ten is
SIGKILL to a server; it is started again while the other one answers. The others are to a worker: it
reports nothing any more, and a new one takes its place. No shard may be lost. None may be done
twice, except for those that a killed worker had.

Prints the counts, and returns 1 if a shard was lost or done twice without a kill.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from typing_extensions import override

from di_kube.resources import NAMESPACES
from di_kube.sync import SyncKubeClient
from di_orchestrator.data_shards.requests import Plan, Remote
from di_orchestrator.data_shards.worker import Worker
from di_orchestrator.server.exchange import Answer, Request, Silence
from di_orchestrator.server.transport import Transport
from tests.integration.conftest import api_server_with_crd
from tests.integration.di_server import (
    Object,
    ServerProcess,
    new_job,
    running_server,
    set_status,
)
from tests.waiting import wait_until

WORKERS = 6
SERVERS = 2
LEASE = 20
"""Seconds; longer than a busy machine lets a living worker wait."""
_SHARDS_OF_A_KILL = 8
"""Shards that are done between two kills."""
_OF_SERVERS = 0.1
"""Share of kills that are of servers, while none of them starts."""
_AT_ONCE = 4
"""Shards that a worker asks for: with more, most shards would be those of killed workers."""
_LEAST = 100
_KILLS_OF_A_JOB = 100
_WAIT = 300.0
_NAMESPACE = "data-shards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run."""

    kills_of_workers: int
    kills_of_servers: int
    shards: int
    done_again: int
    """Shards of killed workers that another worker did again."""
    lost: int
    doubled: int
    """Shards that were done twice, and that no killed worker had."""
    seconds: float

    @property
    def kills(self) -> int:
        """Return the number of all kills."""
        return self.kills_of_workers + self.kills_of_servers

    @property
    def is_well(self) -> bool:
        """Return whether no shard was lost, and none was done twice without a kill."""
        return not (self.lost or self.doubled)


def kill_and_count(
    job: Object, kubeconfig: Path, folder: Path, *, kills: int, seed: int = 1, lease: int = LEASE
) -> Outcome:
    """Kill while workers do the shards of a running job; return the counts once all are done.

    There are fewer kills if the shards are done before.
    """
    began, rng = time.monotonic(), Random(seed)
    with ExitStack() as stack:
        fleet = _Servers(stack, kubeconfig, folder)
        # More than are done between the kills, because workers do not wait for these.
        run = _Run(job, fleet, shards=_LEAST + 3 * kills * _SHARDS_OF_A_KILL, lease=lease)
        pool = stack.enter_context(ThreadPoolExecutor(WORKERS))
        workers = [pool.submit(run.work) for _ in range(WORKERS)]
        of_workers, of_servers = 0, 0
        while of_workers + of_servers < kills:
            run.wait_for(len(run.done) + _SHARDS_OF_A_KILL)
            if run.left < WORKERS * _AT_ONCE:
                break
            # The other server answers while one starts.
            if rng.random() < _OF_SERVERS and fleet.is_whole:
                of_servers += 1
                fleet.replace(rng.randrange(SERVERS))
            else:
                of_workers += 1
                run.kill_a_worker()
            workers = [_living(pool, run, worker) for worker in workers]
        for worker in workers:
            worker.result(timeout=_WAIT)
        pool.submit(run.work).result(timeout=_WAIT)
    expected = range(run.plan.per_epoch)
    twice = {index for index, times in run.done.items() if times > 1}
    return Outcome(
        kills_of_workers=of_workers,
        kills_of_servers=of_servers,
        shards=len(expected),
        done_again=len(twice & run.abandoned),
        lost=len({*expected} - run.done.keys()),
        doubled=len(twice - run.abandoned),
        seconds=round(time.monotonic() - began, 1),
    )


def _living(pool: ThreadPoolExecutor, run: _Run, worker: Future[None]) -> Future[None]:
    if not worker.done():
        return worker
    worker.result()
    return pool.submit(run.work)


class _Servers:
    """Some di-servers; one that is killed is started again at another port."""

    def __init__(self, stack: ExitStack, kubeconfig: Path, folder: Path) -> None:
        self._stack = stack
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._beside = stack.enter_context(ThreadPoolExecutor(1))
        self._running = [self._start() for _ in range(SERVERS)]
        self._starting: Future[None] | None = None

    def url(self, number: int) -> str:
        """Return the address of a server that runs, or ran a moment ago."""
        return self._running[number % SERVERS].url

    @property
    def is_whole(self) -> bool:
        """Return whether no server is being started. Raises the error of a start."""
        if self._starting is None or not self._starting.done():
            return self._starting is None
        self._starting.result()
        return True

    def replace(self, number: int) -> None:
        """Kill a server, and start another one beside what goes on."""
        self._running[number].kill()
        self._starting = self._beside.submit(self._restart, number)

    def _restart(self, number: int) -> None:
        self._running[number] = self._start()

    def _start(self) -> ServerProcess:
        return self._stack.enter_context(running_server(self._folder, self._kubeconfig))


class _Run:
    """Workers that take the shards of a job, and note what they have done."""

    def __init__(self, job: Object, servers: _Servers, *, shards: int, lease: int) -> None:
        self.plan = Plan(shards, 1, 1, shuffle=True, seed=3, lease_seconds=lease, records="")
        self.done: Counter[int] = Counter()
        self.abandoned = set[int]()
        """Shards that killed workers had, or had done without a report."""
        self._job = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
        self._servers = servers
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        self._count = 0
        self._is_to_kill = False

    @property
    def left(self) -> int:
        """Return the number of shards that are not done."""
        return self.plan.size - len(self.done)

    def kill_a_worker(self) -> None:
        """Have the next worker that does a shard die."""
        self._is_to_kill = True
        self._wait(lambda: not self._is_to_kill, "a worker to die")

    def wait_for(self, shards: int) -> None:
        """Wait until so many shards are done. Raises the error of a worker."""
        least = min(shards, self.plan.size)
        self._wait(lambda: len(self.done) >= least, f"{least} shards are done")

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        wait_until(lambda: is_so() or bool(self._errors), _WAIT, what=what)
        if self._errors:
            raise self._errors[0]

    def work(self) -> None:
        """Take shards until all are done, or until the worker is killed."""
        try:
            self._work()
        except BaseException as error:
            self._errors.append(error)
            raise

    def _work(self) -> None:
        with self._lock:
            self._count += 1
            number = self._count
        send = _Route(self._servers, number).send
        source = Remote.of(self._job, "prompts", self.plan, worker=f"w{number}", send=send)
        worker = _Worker(source, lease_seconds=self.plan.lease_seconds)
        while (piece := worker.next()) is not None:
            with self._lock:
                self.done[piece.index] += 1
                if self._is_to_kill:
                    self._is_to_kill = False
                    self.abandoned |= worker.die()
                    return
            worker.done(piece.index)


class _Worker(Worker):
    """A worker that can be killed."""

    @override
    def _wanted(self) -> int:
        return min(super()._wanted(), _AT_ONCE)

    def die(self) -> set[int]:
        """Report nothing any more; return the shards that it had."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            return {*self._held, *self._finished, *(piece.index for piece in self._ahead)}


class _Route:
    """A send that goes to the next server where one does not answer."""

    def __init__(self, servers: _Servers, number: int) -> None:
        self._servers = servers
        self._number = number
        self._transports: dict[str, Transport] = {}

    def send(self, request: Request) -> Answer | Silence:
        url = self._servers.url(self._number)
        found = self._transports.setdefault(url, Transport(url)).send(request)
        if isinstance(found, Silence):
            self._number += 1
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return the exit code of the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="of what is killed")
    parser.add_argument("--out", type=Path, default=Path("out/shards"), help="folder of the logs")
    options = parser.parse_args(arguments)
    out: Path = options.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    with (
        api_server_with_crd("shards") as (cluster, config),
        SyncKubeClient(config=config) as kube,
    ):
        kube.create(NAMESPACES, {"metadata": {"name": _NAMESPACE}}, None)
        outcomes: list[Outcome] = []
        while (left := options.kills - sum(each.kills for each in outcomes)) > 0:
            number = len(outcomes)
            job = new_job(kube, _NAMESPACE, f"round-{number}")
            set_status(kube, job, {"phase": "Running"})
            found = kill_and_count(
                job,
                cluster.kubeconfig,
                out,
                kills=min(left, _KILLS_OF_A_JOB),
                seed=options.seed + number,
            )
            print(json.dumps(asdict(found)), flush=True)
            outcomes.append(found)
    total = {name: sum(asdict(each)[name] for each in outcomes) for name in asdict(outcomes[0])}
    print(json.dumps(total, indent=2))
    return 0 if all(each.is_well for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
