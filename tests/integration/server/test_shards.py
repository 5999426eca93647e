"""Data shards over HTTP: what workers get while servers and workers are killed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest

from di_kube.sync import SyncKubeClient
from di_orchestrator.data_shards.requests import Plan, Remote
from di_orchestrator.data_shards.worker import Worker
from di_orchestrator.server.exchange import Answer, Request, Silence
from di_orchestrator.server.transport import Transport
from tests.integration.conftest import ApiServer
from tests.integration.di_server import Object, new_job, read_job, running_servers, set_status
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd")

PLAN = Plan(size=400, shard_size=2, epochs=2, shuffle=True, seed=3, lease_seconds=5, records="")
WORKERS = 6


class Servers:
    """A send that goes to the next server where one does not answer."""

    def __init__(self, urls: list[str]) -> None:
        self._transports: Iterator[Transport] = cycle([Transport(url) for url in urls])
        self._present = next(self._transports)

    def send(self, request: Request) -> Answer | Silence:
        found = self._present.send(request)
        if isinstance(found, Silence):
            self._present = next(self._transports)
        return found


class Run:
    """Workers that take the shards of a job at two servers, and note what they have done."""

    def __init__(self, job: Object, urls: list[str]) -> None:
        self._job = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
        self._urls = urls
        self._lock = threading.Lock()
        self.done: Counter[int] = Counter()
        self.abandoned = set[int]()

    def work(self, number: int, *, dies_after: int | None = None) -> None:
        """Take shards until all are done; a worker that dies says nothing any more."""
        urls = self._urls[number % 2 :] + self._urls[: number % 2]
        source = Remote.of(self._job, "prompts", PLAN, worker=f"w{number}", send=Servers(urls).send)
        worker = Worker(source, lease_seconds=PLAN.lease_seconds)
        count = 0
        while (piece := worker.next()) is not None:
            with self._lock:
                self.done[piece.index] += 1
            count += 1
            if count == dies_after:
                with worker._changed, self._lock:
                    held = {*worker._held, *worker._finished, *(p.index for p in worker._ahead)}
                    self.abandoned |= held
                    worker._is_closing = True
                return
            worker.done(piece.index)

    def wait_until_begun(self) -> None:
        least = PLAN.per_epoch // 4
        wait_until(lambda: self.done.total() >= least, 60, what=f"{least} shards are done")


@pytest.fixture
def job(kube: SyncKubeClient, namespace: str) -> Object:
    found = new_job(kube, namespace)
    set_status(kube, found, {"phase": "Running"})
    return found


@pytest.mark.proves("rest.md#data-shards")
def test_each_shard_is_done_once_while_a_server_is_killed(
    api_server: ApiServer, kube: SyncKubeClient, job: Object, tmp_path: Path
) -> None:
    with running_servers(2, tmp_path, api_server.kubeconfig) as (one, two):
        run = Run(job, [one.url, two.url])
        with ThreadPoolExecutor(WORKERS) as pool:
            workers = [pool.submit(run.work, number) for number in range(WORKERS)]
            run.wait_until_begun()
            one.kill()
            for worker in workers:
                worker.result(timeout=120)
    assert run.done == Counter(range(PLAN.per_epoch * PLAN.epochs))
    found = read_job(kube, job)["status"]["shards"]["prompts"]
    assert (found["done"], found["total"]) == (400, 400)
    assert "leases" not in found or found["leases"] == {}


def test_no_shard_is_lost_when_workers_are_killed(
    api_server: ApiServer, job: Object, tmp_path: Path
) -> None:
    with running_servers(2, tmp_path, api_server.kubeconfig) as (one, two):
        run = Run(job, [one.url, two.url])
        with ThreadPoolExecutor(2 * WORKERS) as pool:
            killed = [pool.submit(run.work, number, dies_after=5) for number in range(WORKERS)]
            others = [pool.submit(run.work, WORKERS + number) for number in range(WORKERS)]
            for worker in (*killed, *others):
                worker.result(timeout=120)
    assert set(run.done) == {*range(PLAN.per_epoch * PLAN.epochs)}
    assert {index for index, times in run.done.items() if times > 1} <= run.abandoned
