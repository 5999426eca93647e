"""The load of a soak, and what counts against the services."""

from __future__ import annotations

import asyncio

import pytest

from tools.soak.load import Tally, paced
from tools.soak.stage import Kills


def test_every_request_is_made_once_whichever_worker_is_free() -> None:
    made: list[tuple[int, int]] = []

    async def one(worker: int, number: int) -> None:
        made.append((worker, number))
        await asyncio.sleep(0)

    tally = Tally()
    load = paced(tally, one, rate=1e6, count=50, workers=4, goes_on=lambda: True)
    asyncio.run(load)
    assert sorted(number for _, number in made) == list(range(50))
    assert {worker for worker, _ in made} == set(range(4))
    assert tally.elapsed > 0


def test_the_load_ends_when_it_is_told_to() -> None:
    made: list[int] = []

    async def one(_worker: int, number: int) -> None:
        made.append(number)

    load = paced(Tally(), one, rate=1e6, count=50, workers=1, goes_on=lambda: len(made) < 7)
    asyncio.run(load)
    assert made == list(range(7))


def test_a_kill_explains_what_happens_until_nobody_waits_for_it_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 10.0
    monkeypatch.setattr("tools.soak.stage.time.monotonic", lambda: now)
    kills = Kills()
    assert not kills.explain(0, 99)
    kills.begin()
    assert kills.explain(9, 11)
    assert kills.explain(50, 51)
    assert not kills.explain(8, 9)
    now = 12.0
    kills.end()
    assert kills.explain(11, 20)
    assert not kills.explain(13, 20)
