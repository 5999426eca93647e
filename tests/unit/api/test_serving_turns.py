"""Which connections end and which are served next when clients are too many."""

from __future__ import annotations

import asyncio

import pytest

from di_api.service.sources import source_of
from di_api.serving.connections import Connection, Connections
from di_api.serving.turns import Turns
from tests.unit.asynchronous import asynchronous


class Door:
    """Connections of sources, by name; the ended ones in their order."""

    def __init__(self, *, most: int = 6, most_of_source: int = 3, most_bytes: int = 100) -> None:
        self.crowded: list[str] = []
        """Sources that wanted more than they may have."""
        self.connections = Connections(
            most=most,
            most_of_source=most_of_source,
            most_bytes=most_bytes,
            crowded=self.crowded.append,
        )
        self.ended: list[str] = []

    def open(self, name: str) -> Connection | None:
        """One more of the source that the name begins with."""
        return self.connections.admit(name[0], lambda: self.ended.append(name))

    def at(self, name: str) -> Connection:
        connection = self.open(name)
        assert connection is not None
        return connection


@pytest.fixture
def door() -> Door:
    return Door()


def test_a_source_above_its_bound_loses_its_longest_idle_connection(door: Door) -> None:
    first = door.at("a1")
    for name in ("a2", "a3", "b1", "a4"):
        door.at(name)
    assert door.ended == ["a1"]
    assert door.crowded == ["a"]
    first.release()
    assert len(door.connections) == 4


def test_a_connection_with_an_answer_outlives_unused_ones(door: Door) -> None:
    asked = door.at("a1")
    asked.begin()
    asked.answered()
    for name in ("a2", "a3", "a4", "a5"):
        door.at(name)
    assert door.ended == ["a2", "a3"]


def test_a_connection_in_use_by_a_thread_is_not_ended(door: Door) -> None:
    for name in ("a1", "a2", "a3"):
        door.at(name).begin()
    assert door.open("a4") is None
    assert door.open("b1") is not None
    assert door.ended == []


def test_above_the_bound_the_source_with_most_connections_loses_one(door: Door) -> None:
    for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
        door.at(name)
    door.at("d1")
    assert door.ended == ["a1"]
    assert len(door.connections) == 6


def test_above_the_bound_of_bodies_the_largest_source_loses_its_largest(door: Door) -> None:
    small, large, other = door.at("a1"), door.at("a2"), door.at("b1")
    small.grow(20)
    large.grow(50)
    other.grow(30)
    assert door.ended == []
    other.grow(10)
    assert door.ended == ["a2"]
    # Who has left counts no more, whatever still comes of it.
    large.grow(1000)
    other.grow(40)
    assert door.ended == ["a2"]


def test_a_body_in_use_by_a_thread_is_kept(door: Door) -> None:
    working, late = door.at("a1"), door.at("b1")
    working.grow(90)
    working.begin()
    late.grow(20)
    assert door.ended == ["b1"]
    working.answered()
    door.at("b2").grow(90)
    assert door.ended == ["b1"]


def test_addresses_of_one_ipv6_network_are_one_source() -> None:
    assert source_of("2001:db8::1") == source_of("2001:db8::ffff:2") != source_of("2001:db8:0:1::1")
    assert source_of("10.0.0.1") != source_of("10.0.0.2")
    assert source_of("::ffff:10.0.0.1") != source_of("::ffff:10.0.0.2")


def _never(_source: str) -> bool:
    return False


@asynchronous
async def test_sources_are_served_in_turn() -> None:
    turns, served = Turns(1, slows=_never), list[str]()

    async def ask(name: str) -> None:
        await turns.take(name[0], 10)
        served.append(name)
        await asyncio.sleep(0)
        turns.give_back(name[0])

    await asyncio.gather(*map(ask, ("a1", "a2", "a3", "a4", "b1", "c1", "b2")))
    assert served == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


@asynchronous
async def test_a_caller_that_gave_up_takes_no_turn() -> None:
    turns = Turns(1, slows=_never)
    await turns.take("a", 10)
    with pytest.raises(TimeoutError):
        await turns.take("b", 0)
    patient = asyncio.create_task(turns.take("c", 10))
    await asyncio.sleep(0)
    turns.give_back("a")
    await patient
    turns.give_back("c")
    await turns.take("b", 0)
