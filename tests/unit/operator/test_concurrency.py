"""One job's requests: many at once for a moment, few for as long as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from di_operator.concurrency import BURST, CONCURRENCY, GROWTH, spread

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

    async def act(self, item: int) -> bool:
        self.taken.append(item)
        self.under_way += 1
        await self._round.wait()
        self.under_way -= 1
        return self._accepts(item)

    def spread(self, count: int) -> None:
        asyncio.run(self._main(count))

    async def _main(self, count: int) -> None:
        self._round = asyncio.Event()
        work = asyncio.create_task(spread(range(count), self.act))
        while True:
            for _ in range(5):  # until all have begun that may
                await asyncio.sleep(0)
            if work.done():
                return work.result()
            self.rounds.append(self.under_way)
            done, self._round = self._round, asyncio.Event()
            done.set()


def test_a_hundred_are_under_way_faster_with_each_that_has_been_taken() -> None:
    server = Server()
    server.spread(100)
    assert server.taken == list(range(100))
    assert server.rounds == [CONCURRENCY, SECOND, 100 - CONCURRENCY - SECOND]


def test_a_thousand_hurry_at_first_and_then_leave_room() -> None:
    server = Server()
    server.spread(1000)
    assert sorted(server.taken) == list(range(1000))
    third = BURST - SECOND + CONCURRENCY
    assert server.rounds[:3] == [CONCURRENCY, SECOND, third]
    assert set(server.rounds[3:-1]) == {CONCURRENCY}


@pytest.mark.parametrize("count", [0, 1, 3, CONCURRENCY])
def test_a_few_take_one_round(count: int) -> None:
    server = Server()
    server.spread(count)
    assert server.rounds == ([count] if count else [])


def test_after_a_refusal_nothing_begins_and_nothing_is_left_under_way() -> None:
    server = Server(lambda item: item != CONCURRENCY)
    server.spread(1000)
    assert server.taken == list(range(CONCURRENCY + SECOND))
    assert server.under_way == 0


def test_refused_from_the_start_costs_a_handful() -> None:
    server = Server(lambda item: False)
    server.spread(1000)
    assert len(server.taken) == CONCURRENCY
