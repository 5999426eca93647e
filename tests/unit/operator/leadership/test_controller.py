"""The workers: one reconcile of a key at a time, failures come back later, a lost lease stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest

from di_kube.errors import Throttled, Unavailable
from di_operator.process.controller import Controller, JobKey, Outdated, job_queue
from di_operator.process.lease_state import Loss
from di_operator.process.queue import KeyedBackoff, KeyQueue
from tests.unit.operator import virtual_time

KEY = JobKey("default", "a")


class Results(list[str]):
    def reconciled(self, result: str, seconds: float) -> None:
        self.append(result)


def controller(
    reconcile: Callable[[JobKey], Awaitable[float | None]],
    queue: KeyQueue[JobKey],
    results: Results,
    reported: list[tuple[JobKey, Exception]] | None = None,
    *,
    workers: int = 4,
    loss: Loss | None = None,
) -> Controller:
    async def report(key: JobKey, error: Exception) -> None:
        if reported is not None:
            reported.append((key, error))

    return Controller(
        reconcile=reconcile,
        report=report,
        queue=queue,
        backoff=KeyedBackoff(minimum=1, maximum=60, rng=Random(1)),
        workers=workers,
        loss=loss or Loss(),
        monotonic=asyncio.get_running_loop().time,
        observer=results,
    )


@virtual_time.in_virtual_time
async def test_a_key_is_never_reconciled_twice_at_the_same_time() -> None:
    queue = KeyQueue[JobKey]()
    active = 0
    seen = 0

    async def reconcile(_: JobKey) -> float | None:
        nonlocal active, seen
        active += 1
        seen += 1
        assert active == 1
        if seen < 10:
            queue.add(KEY)
        else:
            queue.close()
        await asyncio.sleep(1)
        active -= 1
        return None

    queue.add(KEY)
    results = Results()
    await controller(reconcile, queue, results).run()
    assert results == ["ok"] * 10


@virtual_time.in_virtual_time
async def test_different_keys_are_reconciled_at_the_same_time() -> None:
    queue = KeyQueue[JobKey]()
    together = asyncio.Barrier(3)

    async def reconcile(_: JobKey) -> float | None:
        await asyncio.wait_for(together.wait(), 5)
        queue.close()
        return None

    for name in "abc":
        queue.add(JobKey("default", name))
    results = Results()
    await controller(reconcile, queue, results).run()
    assert results == ["ok"] * 3


@dataclass
class Course:
    """What became of a key whose reconciles return or raise one of `answers` each."""

    times: list[float] = field(default_factory=list)
    results: Results = field(default_factory=Results)
    reported: list[tuple[JobKey, Exception]] = field(default_factory=list)


async def course(*answers: float | Exception) -> Course:
    queue, found = KeyQueue[JobKey](), Course()

    async def reconcile(_: JobKey) -> float | None:
        answer = answers[len(found.times)]
        found.times.append(asyncio.get_running_loop().time())
        if len(found.times) == len(answers):
            queue.close()
        if isinstance(answer, Exception):
            raise answer
        return answer

    queue.add(KEY)
    await controller(reconcile, queue, found.results, found.reported).run()
    return found


@pytest.mark.parametrize(
    ("answer", "seconds", "result"),
    [(90.0, 90, "ok"), (Throttled(kind="Pod", code=429, retry_after=17.0), 17, "retry")],
)
@virtual_time.in_virtual_time
async def test_a_key_is_reconciled_again_when_the_reconcile_or_the_server_asks(
    answer: float | Exception, seconds: float, result: str
) -> None:
    found = await course(answer, 0.0)
    assert found.times == pytest.approx([0, seconds])
    assert found.results == [result, "ok"]


@virtual_time.in_virtual_time
async def test_a_job_whose_objects_keep_changing_waits_longer_each_time() -> None:
    found = await course(*[Outdated("has to go first")] * 5)
    assert found.results == ["retry"] * 5
    waits = [later - earlier for earlier, later in pairwise(found.times)]
    assert waits == sorted(waits)
    assert waits[-1] >= 4


@virtual_time.in_virtual_time
async def test_a_defect_in_one_job_is_retried_and_delays_no_other() -> None:
    queue = KeyQueue[JobKey]()
    other = JobKey("default", "b")
    calls: list[JobKey] = []

    async def reconcile(key: JobKey) -> float | None:
        calls.append(key)
        if key == KEY and calls.count(KEY) < 3:
            raise KeyError("defect")
        if calls.count(KEY) == 3:
            queue.close()
        return None

    queue.add(KEY)
    queue.add(other)
    results = Results()
    await controller(reconcile, queue, results).run()
    assert calls == [KEY, other, KEY, KEY]
    assert sorted(results) == ["error", "error", "ok", "ok"]


@pytest.mark.parametrize("is_grouped", [False, True])
@virtual_time.in_virtual_time
async def test_no_reconcile_begins_after_a_lost_lease(
    is_grouped: bool,
) -> None:
    queue, loss, results = KeyQueue[JobKey](), Loss(), Results()
    reported: list[tuple[JobKey, Exception]] = []
    calls: list[JobKey] = []

    async def write() -> None:
        raise loss.declare("gone")

    async def reconcile(key: JobKey) -> float | None:
        calls.append(key)
        if not is_grouped:
            await write()
        async with asyncio.TaskGroup() as group:
            group.create_task(write())
        return None

    for name in "abc":
        queue.add(JobKey("default", name))
    await controller(reconcile, queue, results, reported, workers=1, loss=loss).run()
    assert (calls, results, reported) == ([KEY], [], [])


@virtual_time.in_virtual_time
async def test_a_running_reconcile_ends_after_the_queue_is_closed() -> None:
    queue = KeyQueue[JobKey]()
    finished: list[JobKey] = []

    async def reconcile(key: JobKey) -> float | None:
        queue.close()
        await asyncio.sleep(5)
        finished.append(key)
        return 0.0

    queue.add(KEY)
    await controller(reconcile, queue, Results()).run()
    assert finished == [KEY]


@virtual_time.in_virtual_time
async def test_a_defect_is_reported_with_its_job_and_a_refusal_is_not() -> None:
    found = await course(ZeroDivisionError("ours"), Unavailable(kind="Pod", code=503), 0.0)
    assert [(key, type(error)) for key, error in found.reported] == [(KEY, ZeroDivisionError)]


@virtual_time.in_virtual_time
async def test_another_namespace_gets_a_worker_beside_ten_thousand_jobs() -> None:
    queue = job_queue(workers=32)
    for number in range(10_000):
        queue.add(JobKey("many", f"job-{number}"))
    looked_at = list[JobKey]()

    async def reconcile(key: JobKey) -> float | None:
        looked_at.append(key)
        if key.namespace == "many":
            await asyncio.sleep(60)
        return None

    running = asyncio.create_task(controller(reconcile, queue, Results(), workers=32).run())
    await asyncio.sleep(1)
    assert len(looked_at) == 24
    queue.add(JobKey("few", "job"))
    await asyncio.sleep(0.001)
    assert looked_at[24:] == [JobKey("few", "job")]
    queue.close()
    await running


@virtual_time.in_virtual_time
async def test_a_queue_for_one_worker_hands_out_keys() -> None:
    queue = job_queue(workers=1)
    queue.add(JobKey("ns", "job"))
    assert await asyncio.wait_for(queue.get(), 1) == JobKey("ns", "job")
