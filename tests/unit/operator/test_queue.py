"""The work queue: a key waits once, is worked on by one worker, and comes back when due."""

from __future__ import annotations

import asyncio
from collections.abc import Sized
from random import Random

import pytest

from di_operator.process.queue import KeyedBackoff, KeyQueue, QueueClosed
from tests.unit.operator import virtual_time


@virtual_time.in_virtual_time
async def test_a_key_added_many_times_is_handed_out_once() -> None:
    queue = KeyQueue[str]()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


@virtual_time.in_virtual_time
async def test_a_key_added_while_worked_on_comes_back_only_when_done() -> None:
    queue = KeyQueue[str]()
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await asyncio.wait_for(queue.get(), 1) == "a"
    queue.done("a")
    assert len(queue) == 0


@virtual_time.in_virtual_time
async def test_the_earliest_of_several_delays_counts() -> None:
    queue = KeyQueue[str]()
    queue.add_after("a", 30)
    queue.add_after("a", 5)
    queue.add_after("a", 60)
    assert await queue.get() == "a"
    assert asyncio.get_running_loop().time() == pytest.approx(5)
    assert queue.delayed == 0


@virtual_time.in_virtual_time
async def test_taking_a_key_drops_its_pending_delay() -> None:
    queue = KeyQueue[str]()
    queue.add_after("a", 5)
    queue.add("a")
    queue.done(await queue.get())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 60)


@virtual_time.in_virtual_time
async def test_a_worker_that_waits_is_woken_by_each_key() -> None:
    queue = KeyQueue[str]()
    waiting = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("b")
    assert await asyncio.gather(*waiting) == ["a", "b"]


@virtual_time.in_virtual_time
async def test_a_cancelled_waiter_does_not_swallow_a_key() -> None:
    queue = KeyQueue[str]()
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 1) == "a"


@virtual_time.in_virtual_time
async def test_a_closed_queue_hands_out_nothing_more() -> None:
    queue = KeyQueue[str]()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("late", 60)
    queue.close()
    assert queue.delayed == 0
    queue.add("a")
    queue.add_after("b", 1)
    with pytest.raises(QueueClosed):
        await waiting
    with pytest.raises(QueueClosed):
        await queue.get()


@virtual_time.in_virtual_time
async def test_a_group_rests_after_each_key_and_others_do_not_wait() -> None:
    queue = KeyQueue[str](group=first_letter, at_once=1, rest=2.0)
    for key in ("a0", "a1", "b0"):
        queue.add(key)
    clock = asyncio.get_running_loop().time
    taken = []
    for _ in range(3):
        key = await queue.get()
        taken.append((key, clock()))
        queue.done(key)
    assert taken == [("a0", 0.0), ("b0", 0.0), ("a1", 2.0)]
    # The group has its whole share again.
    await asyncio.sleep(2)
    queue.add("a2")
    assert await queue.get() == "a2"
    assert clock() == 4.0


def first_letter(key: str) -> str:
    return key[0]


@virtual_time.in_virtual_time
async def test_a_key_after_ten_thousand_of_another_group_is_next() -> None:
    queue = KeyQueue[str](group=first_letter)
    for number in range(10_000):
        queue.add(f"a{number}")
    assert await queue.get() == "a0"
    for key in ("b0", "b1", "c0"):
        queue.add(key)
    handed_out = [await queue.get() for _ in range(7)]
    assert handed_out == ["a1", "b0", "c0", "a2", "b1", "a3", "a4"]
    assert len(queue) == 10_003 - 8


@virtual_time.in_virtual_time
async def test_a_group_that_returns_does_not_overtake_waiting_groups() -> None:
    queue = KeyQueue[str](group=first_letter)
    for key in ("a0", "a1", "a2", "b0", "b1"):
        queue.add(key)
    handed_out = list[str]()
    for _ in range(6):
        handed_out.append(await queue.get())
        queue.add("c0")  # at once again, with each look
        if handed_out[-1] == "c0":
            queue.done("c0")
    assert handed_out == ["a0", "b0", "a1", "c0", "b1", "a2"]


@virtual_time.in_virtual_time
async def test_a_group_leaves_workers_to_others_while_its_keys_run() -> None:
    queue = KeyQueue[str](group=first_letter, at_once=2)
    for key in ("a0", "a1", "a2", "a3"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a0", "a1"]
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(60)
    assert not waiting.done()
    queue.add("b0")
    assert await waiting == "b0"
    assert len(queue) == 2

    waiting = asyncio.create_task(queue.get())
    queue.add("a0")  # while it is worked on: comes back behind those that waited
    queue.done("a0")
    assert await asyncio.wait_for(waiting, 1) == "a2"
    queue.done("a1")
    queue.done("a2")
    assert [await queue.get(), await queue.get()] == ["a3", "a0"]


@virtual_time.in_virtual_time
async def test_an_empty_group_takes_no_memory() -> None:
    queue = KeyQueue[str](group=first_letter)
    for key in ("a0", "b0", "b1"):
        queue.add(key)
    for _ in range(3):
        queue.done(await queue.get())
    kept = {name: found for name, found in vars(queue).items() if isinstance(found, Sized)}
    assert {name for name, found in kept.items() if len(found)} == set()


def test_backoff_doubles_to_its_maximum_with_jitter_below() -> None:
    backoff = KeyedBackoff[str](minimum=1, maximum=60, rng=Random(1))
    delays = [backoff.next("a") for _ in range(100)]
    for delay, full in zip(delays, [1, 2, 4, 8, 16, 32, 60, 60], strict=False):
        assert full / 2 <= delay <= full
    assert all(30 <= delay <= 60 for delay in delays[6:])
    assert len(set(delays[6:])) > 50


def test_backoff_is_kept_for_each_key_and_forgotten_on_success() -> None:
    backoff = KeyedBackoff[str](minimum=1, maximum=60, rng=Random(1))
    for _ in range(5):
        backoff.next("a")
    assert backoff.next("b") <= 1
    backoff.forget("a")
    assert backoff.next("a") <= 1
