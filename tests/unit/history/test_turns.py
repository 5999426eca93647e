"""Namespaces take turns."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from di_history.turns import Turns


async def _all(turns: Turns[str]) -> list[str]:
    found = []
    while turns:
        async with turns.turn() as work:
            found.append(work)
    return found


def test_a_long_queue_of_one_namespace_does_not_delay_another() -> None:
    turns = Turns[str](workers=8)
    for number in range(4):
        turns.put("a", f"a{number}")
    for number in range(2):
        turns.put("b", f"b{number}")
    assert asyncio.run(_all(turns)) == ["a0", "b0", "a1", "b1", "a2", "a3"]


@pytest.mark.proves("history.md#shares/log")
def test_past_the_bound_the_longest_queue_loses_its_newest() -> None:
    turns = Turns[str](workers=8, most=3)
    assert [turns.put("a", f"a{number}") for number in range(3)] == [(), (), ()]
    assert turns.put("b", "b0") == ("a2",)
    assert turns.put("a", "a3") == ("a3",)
    assert asyncio.run(_all(turns)) == ["a0", "b0", "a1"]


@pytest.mark.parametrize("workers", [4, 8])
@pytest.mark.proves("history.md#shares/log")
def test_slow_work_of_one_namespace_leaves_workers_to_others(workers: int) -> None:
    async def run() -> None:
        turns = Turns[str](workers=workers)
        for _ in range(100):
            turns.put("a", "slow")
        async with AsyncExitStack() as stack:
            for _ in range(workers * 3 // 4):
                await stack.enter_async_context(turns.turn())
            waiting = asyncio.create_task(_one(turns))
            await asyncio.sleep(0)
            turns.put("b", "quick")
            assert await waiting == "quick"
        # The namespace has its workers back.
        assert await _one(turns) == "slow"

    asyncio.run(run())


async def _one(turns: Turns[str]) -> str:
    async with turns.turn() as work:
        return work
