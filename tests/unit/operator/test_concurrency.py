"""One job's requests: many at once for a moment, few for as long as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from itertools import accumulate, pairwise

import pytest

from di_operator.process.concurrency import (
    AMONG_TENANTS,
    BURST,
    CONCURRENCY,
    GROWTH,
    IN_COMPANY,
    LINGER,
    OF_LARGE_IN_COMPANY,
    Tenants,
    Writers,
    spread,
)
from tests.unit.operator import virtual_time

SECOND = CONCURRENCY + GROWTH * CONCURRENCY
"""Under way in the second round, when each of the first has gone well."""


class Server:
    """Takes what is under way in rounds, as if all requests took the same time."""

    def __init__(self, accepts: Callable[[int], bool] = lambda item: True) -> None:
        self._accepts = accepts
        self.taken: list[int] = []
        self.under_way = 0
        self.rounds: list[int] = []
        """How many requests each round found under way."""
        self.in_company: Callable[[], bool] = lambda: False

    async def act(self, item: int) -> bool:
        self.taken.append(item)
        self.under_way += 1
        await self._round.wait()
        self.under_way -= 1
        return self._accepts(item)

    def spread(self, count: int) -> None:
        virtual_time.run(self._main(count))

    async def _main(self, count: int) -> None:
        self._round = asyncio.Event()
        work = asyncio.create_task(spread(range(count), self.act, in_company=self.in_company))
        while True:
            for _ in range(5):  # until all have begun that may
                await asyncio.sleep(0)
            if work.done():
                return work.result()
            self.rounds.append(self.under_way)
            done, self._round = self._round, asyncio.Event()
            done.set()


def test_concurrency_grows_with_each_accepted_request() -> None:
    server = Server()
    server.spread(100)
    assert server.taken == list(range(100))
    assert server.rounds == [CONCURRENCY, SECOND, 100 - CONCURRENCY - SECOND]


def test_a_thousand_requests_start_as_a_burst_and_then_slow_down() -> None:
    server = Server()
    server.spread(1000)
    assert sorted(server.taken) == list(range(1000))
    third = BURST - SECOND - CONCURRENCY
    assert server.rounds[:3] == [CONCURRENCY, SECOND, third]
    assert set(server.rounds[3:-1]) == {CONCURRENCY}


@pytest.mark.parametrize("count", [0, 1, 3, CONCURRENCY])
def test_a_few_requests_are_sent_at_once(count: int) -> None:
    server = Server()
    server.spread(count)
    assert server.rounds == ([count] if count else [])


def test_no_request_begins_after_a_refusal() -> None:
    server = Server(lambda item: item != CONCURRENCY)
    server.spread(1000)
    assert server.taken == list(range(CONCURRENCY + SECOND))
    assert server.under_way == 0


def test_a_refusal_from_the_start_costs_a_handful_of_requests() -> None:
    server = Server(lambda item: False)
    server.spread(1000)
    assert len(server.taken) == CONCURRENCY


def test_a_few_requests_run_while_other_jobs_write() -> None:
    server = Server()
    server.in_company = lambda: True
    server.spread(CONCURRENCY)
    assert server.taken == list(range(CONCURRENCY))
    assert set(server.rounds) == {IN_COMPANY}


def test_a_large_job_leaves_connections_for_small_ones() -> None:
    server = Server()
    server.in_company = lambda: True
    server.spread(CONCURRENCY + 20)
    assert server.taken == list(range(CONCURRENCY + 20))
    hurried = CONCURRENCY // IN_COMPANY
    assert set(server.rounds[:hurried]) == {IN_COMPANY}
    assert set(server.rounds[hurried:]) == {OF_LARGE_IN_COMPANY}


@pytest.mark.parametrize(("took", "apart"), [(0.1, 0.2), (5.0, 5.0 + LINGER)])
def test_a_large_job_waits_between_requests_while_other_jobs_write(
    took: float, apart: float
) -> None:
    begun: list[float] = []

    async def act(_: int) -> bool:
        begun.append(asyncio.get_running_loop().time())
        await asyncio.sleep(took)
        return True

    virtual_time.run(spread(range(CONCURRENCY + 5), act, in_company=lambda: True))

    waits = [after - before for before, after in pairwise(begun[CONCURRENCY:])]
    assert waits == pytest.approx([apart] * 4)


def test_concurrency_falls_while_another_job_writes_and_then_recovers() -> None:
    server = Server()
    server.in_company = lambda: 500 < len(server.taken) < 600
    server.spread(1000)
    assert sorted(server.taken) == list(range(1000))
    begun = list(accumulate(server.rounds))
    came = next(at for at, count in enumerate(begun) if count > 500)
    left = next(at for at, count in enumerate(begun) if count >= 600)
    assert server.rounds[came - 1] == CONCURRENCY
    assert set(server.rounds[came + 1 : left + 1]) == {OF_LARGE_IN_COMPANY}
    grown = OF_LARGE_IN_COMPANY * (1 + GROWTH)
    assert server.rounds[left + 1 : left + 3] == [grown, grown * (1 + GROWTH)]


class Moment:
    now = 0.0


def test_other_jobs_count_while_they_write_and_a_moment_longer() -> None:
    moment = Moment()
    writers = Writers(monotonic=lambda: moment.now)
    with writers.writing("large"), writers.writing("large"):
        assert not writers.has_company("large")
        assert writers.has_company("small")
        with writers.writing("small"):
            moment.now = 100.0  # a write that takes long
            assert writers.has_company("large")
        moment.now += LINGER * 0.9
        with writers.writing("small"):
            moment.now += LINGER * 0.9
        moment.now += LINGER * 0.9
        assert writers.has_company("large")
        moment.now += LINGER * 0.1
        assert not writers.has_company("large")


def test_jobs_that_wrote_once_are_forgotten() -> None:
    moment = Moment()
    writers = Writers(monotonic=lambda: moment.now)
    for number in range(1000):
        moment.now = number
        with writers.writing(number):
            pass
    held = [found for found in vars(writers).values() if isinstance(found, Sized)]
    assert sum(map(len, held)) == 1


class Story:
    """Writes of two namespaces, each until the test ends it."""

    def __init__(self) -> None:
        self.moment = Moment()
        self.tenants = Tenants(monotonic=lambda: self.moment.now)
        self.begun: list[str] = []
        self._ends: list[asyncio.Event] = []

    def write(self, namespace: str, count: int) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._write(namespace)) for _ in range(count)]

    async def _write(self, namespace: str) -> None:
        async with self.tenants.writing(namespace):
            end = asyncio.Event()
            self._ends.append(end)
            self.begun.append(namespace)
            await end.wait()

    async def end(self, count: int = 1) -> None:
        """End those that began first, and let others begin."""
        for end in self._ends[:count]:
            end.set()
        del self._ends[:count]
        for _ in range(5):
            await asyncio.sleep(0)

    def held(self) -> int:
        return sum(len(x) for x in vars(self.tenants).values() if isinstance(x, Sized))


@virtual_time.in_virtual_time
async def test_a_namespace_alone_has_no_limit_on_its_writes() -> None:
    story = Story()
    tasks = story.write("large", 100)
    await story.end(0)
    assert len(story.begun) == 100
    await story.end(100)
    await asyncio.gather(*tasks)
    assert story.held() == 0


@virtual_time.in_virtual_time
async def test_writes_of_a_namespace_are_limited_while_another_writes() -> None:
    story = Story()
    tasks = story.write("small", 1)
    await story.end(0)
    tasks += story.write("large", 100)
    await story.end(0)
    assert story.begun.count("large") == AMONG_TENANTS
    tasks += story.write("small", 1)
    await story.end(0)
    assert story.begun[-1] == "small", "it does not wait"
    await story.end(3)  # the first small one, and two large ones
    assert story.begun.count("large") == AMONG_TENANTS + 2
    await story.end(len(story.begun))
    story.moment.now += LINGER  # and no other namespace writes any more
    while not all(task.done() for task in tasks):
        await story.end(100)
    assert story.begun.count("large") == 100
    assert story.held() == 0


@virtual_time.in_virtual_time
async def test_all_waiting_writes_begin_once_the_other_namespace_is_done() -> None:
    story = Story()
    tasks = story.write("small", 1)
    await story.end(0)
    tasks += story.write("large", 100)
    await story.end(1)
    assert story.begun.count("large") == AMONG_TENANTS
    story.moment.now += LINGER
    await story.end(1)
    assert story.begun.count("large") == 100
    await story.end(100)
    await asyncio.gather(*tasks)


@virtual_time.in_virtual_time
async def test_a_cancelled_write_leaves_its_place_to_others() -> None:
    story = Story()
    tasks = story.write("small", 1)
    await story.end(0)
    tasks += story.write("large", AMONG_TENANTS)
    await story.end(0)
    gone, late, last = story.write("large", 3)
    await story.end(0)
    gone.cancel()
    await story.end(1)  # the small one
    story._ends[0].set()
    await asyncio.sleep(0)  # the first large one ends, and one that waits may begin
    late.cancel()
    await asyncio.gather(gone, late, return_exceptions=True)
    await story.end(0)
    assert story.begun.count("large") == AMONG_TENANTS + 1, "the last one"
    await story.end(100)
    await asyncio.gather(*tasks, last)
    assert [gone.cancelled(), late.cancelled()] == [True, True]
    assert story.held() == 0
