"""Which connections end and which are served next when clients are too many."""

from __future__ import annotations

import asyncio

import pytest

from di_service.serving.connections import Connection, Connections
from di_service.serving.turns import Flow, Turn, Turns
from di_service.sources import source_of
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


class Counter:
    """A service of some places, whose clock goes on by what each request takes."""

    def __init__(self, places: int) -> None:
        self.now = 0.0
        self.turns = Turns(places, slows=_never, clock=lambda: self.now)
        self.served: list[str] = []

    async def ask(self, name: str, seconds: float = 1.0) -> None:
        """Be served as the source that the name begins with; what is before a dash, its tenant."""
        tenant = name.partition("-")[0] if "-" in name else ""
        turn = await self.turns.take(Flow(name[0], tenant), 10)
        self.served.append(name)
        await asyncio.sleep(0)
        self.now += seconds
        self.turns.give_back(turn)

    async def hold(self, flow: Flow) -> Turn | None:
        """A place that is kept; None if there is none to be taken at once."""
        try:
            return await self.turns.take(flow, 0)
        except TimeoutError:
            return None


@asynchronous
async def test_sources_are_served_in_turn() -> None:
    counter = Counter(1)
    names = ("a1", "a2", "a3", "a4", "b1", "c1", "b2")
    await asyncio.gather(*map(counter.ask, names))
    assert counter.served == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


@asynchronous
async def test_the_source_that_used_fewest_seconds_is_next() -> None:
    counter = Counter(1)
    heavy = [counter.ask(f"a{number}", 5.0) for number in range(4)]
    light = [counter.ask(f"b{number}", 1.0) for number in range(12)]
    await asyncio.gather(*heavy, *light)
    first = counter.served[:12]
    assert [name for name in first if name[0] == "a"] == ["a0", "a1"]


@pytest.mark.proves("security.md#clients-that-hold-on/threads-*")
@asynchronous
async def test_tenants_of_one_source_share_by_the_seconds_they_use() -> None:
    counter = Counter(1)
    heavy = [counter.ask(f"ax-{number}", 10.0) for number in range(4)]
    light = [counter.ask(f"ay-{number}", 1.0) for number in range(9)]
    other = [counter.ask("b")]
    await asyncio.gather(*heavy, *light, *other)
    assert counter.served.index("b") <= 2
    assert counter.served.index("ay-8") < counter.served.index("ax-2")


@pytest.mark.proves("security.md#clients-that-hold-on/threads-*")
@asynchronous
async def test_a_source_has_half_of_the_places_and_a_tenant_half_of_those() -> None:
    counter = Counter(8)
    one = [await counter.hold(Flow("a", "one")) for _ in range(3)]
    assert [turn is not None for turn in one] == [True, True, False]
    others = [await counter.hold(Flow("a", f"t{number}")) for number in range(3)]
    assert [turn is not None for turn in others] == [True, True, False]
    assert all([await counter.hold(Flow("b")) for _ in range(4)])
    assert await counter.hold(Flow("c")) is None


@asynchronous
async def test_a_place_goes_to_a_waiting_tenant_below_its_share() -> None:
    counter = Counter(4)
    held = await counter.hold(Flow("a", "one"))
    late = [asyncio.create_task(counter.turns.take(Flow("a", "one"), 10)) for _ in range(2)]
    other = asyncio.create_task(counter.turns.take(Flow("a", "two"), 10))
    await asyncio.sleep(0)
    assert (other.done(), late[0].done()) == (True, False)
    assert held is not None
    counter.turns.give_back(held)
    await late[0]
    assert not late[1].done()
    counter.turns.give_back(late[0].result())
    await late[1]


@asynchronous
async def test_a_source_does_not_pay_for_seconds_that_no_other_wanted() -> None:
    counter = Counter(1)
    await counter.ask("a", 100.0)
    await asyncio.gather(counter.ask("a1"), counter.ask("b1"), counter.ask("a2"), counter.ask("b2"))
    assert counter.served == ["a", "a1", "b1", "a2", "b2"]


@asynchronous
async def test_a_caller_that_gave_up_takes_no_turn() -> None:
    turns = Turns(1, slows=_never)
    first = await turns.take(Flow("a"), 10)
    with pytest.raises(TimeoutError):
        await turns.take(Flow("b"), 0)
    patient = asyncio.create_task(turns.take(Flow("c"), 10))
    await asyncio.sleep(0)
    turns.give_back(first)
    turns.give_back(await patient)
    await turns.take(Flow("b"), 0)
