"""The table of data shards: what workers get, whatever they do and however requests are lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_server.jobs.shards import table as tables
from di_server.jobs.shards.order import shard_at
from di_server.jobs.shards.ranges import from_text, to_text
from di_server.jobs.shards.table import MAX_AT_ONCE, Ask, Lease, Plan, Table

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def plan(*, size: int = 10, shard_size: int = 3) -> Plan:
    return Plan(size=size, shard_size=shard_size, epochs=2, shuffle=True, seed=7, lease_seconds=60)


def no_one(_: Lease) -> bool:
    return False


@given(count=st.integers(1, 300), seed=st.integers(0, 2**63), epoch=st.integers(0, 9))
def test_the_order_has_each_shard_once(count: int, seed: int, epoch: int) -> None:
    found = [shard_at(place, count=count, seed=seed, epoch=epoch) for place in range(count)]
    assert sorted(found) == [*range(count)]


def test_the_order_of_a_seed_stays_the_same_for_old_checkpoints() -> None:
    found = [shard_at(place, count=10, seed=7, epoch=1) for place in range(10)]
    assert "".join(map(str, found)) == "6370152948"


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = {
        tuple(shard_at(place, count=50, seed=seed, epoch=epoch) for place in range(50))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9


@given(st.frozensets(st.integers(0, 400)))
def test_ranges_are_read_as_they_were_written(numbers: frozenset[int]) -> None:
    assert from_text(to_text(numbers), below=401, most=401) == numbers


@pytest.mark.parametrize("text", ["0-", "a", "1,,2", "0-500", "0-300", None, 3, "9" * 16])
def test_other_texts_are_no_ranges(text: object) -> None:
    with pytest.raises(ValueError, match="must "):
        from_text(text, below=400, most=300)


@given(size=st.integers(1, 200), shard_size=st.integers(1, 70), shuffle=st.booleans())
def test_the_shards_of_an_epoch_have_each_record_once(
    size: int, shard_size: int, *, shuffle: bool
) -> None:
    found = Plan(
        size=size, shard_size=shard_size, epochs=2, shuffle=shuffle, seed=1, lease_seconds=9
    )
    table = Table(plan=found)
    shards = [table.shard(index) for index in range(found.total)]
    for epoch in range(2):
        records = [
            record
            for shard in shards
            if shard.epoch == epoch
            for record in range(shard.start, shard.end)
        ]
        assert sorted(records) == [*range(size)]


@dataclass
class Worker:
    """A worker that asks for the next shards, does them in order, and may lose answers."""

    name: str
    generation: int = 0
    held: list[int] = field(default_factory=list)
    finished: set[int] = field(default_factory=set)

    def ask(self, number: int, *, leaves: bool = False) -> Ask:
        return Ask(
            worker=self.name,
            pod=f"uid-{self.name}",
            generation=self.generation,
            done=frozenset(self.finished),
            holds=frozenset(self.held),
            number=number,
            leaves=leaves,
        )


class Run:
    """A run of workers on one table, by a random plan."""

    def __init__(self, rng: Random, *, workers: int, size: int = 10) -> None:
        self.rng = rng
        self.table = Table(plan=plan(size=size))
        self.workers = [Worker(f"w{number}") for number in range(workers)]
        self.done: Counter[int] = Counter()
        self.now = NOW
        self.dead: set[str] = set()

    def step(self, worker: Worker, *, loses: bool) -> None:
        self.table = self.table.reclaim(self.now, lambda lease: lease.pod in self.dead)
        ask = worker.ask(self.rng.randint(0, 3))
        self.table, given = self.table.serve(ask, self.now)
        check_counts(self.table)
        if loses:
            return
        worker.finished -= ask.done
        worker.held += [index for index in given if index not in worker.held]
        for _ in range(self.rng.randint(0, len(worker.held))):
            index = worker.held.pop(0)
            self.done[index] += 1
            worker.finished.add(index)

    def until_finished(self, choose: Callable[[], tuple[Worker, bool]]) -> None:
        for _ in range(5000):
            if self.table.is_finished:
                return
            worker, loses = choose()
            self.step(worker, loses=loses)
        raise AssertionError("never finished")


def check_counts(table: Table) -> None:
    """The counts that a table carries along are those of its leases."""
    assert table.under_way == sum(len(lease.shards) for lease in table.leases.values())
    first = min(table.undone, default=table.after)
    assert table.epoch == min(first, table.plan.total - 1) // table.plan.per_epoch


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_each_shard_is_done_once_while_only_answers_are_lost(seed: int, workers: int) -> None:
    rng = Random(seed)
    run = Run(rng, workers=workers)
    run.until_finished(lambda: (rng.choice(run.workers), rng.random() < 0.4))
    assert run.done == Counter(range(run.table.plan.total))


@given(st.integers(0, 2**32))
def test_no_shard_is_lost_with_workers_that_die_or_stall(seed: int) -> None:
    rng = Random(seed)
    run = Run(rng, workers=3, size=40)

    def choose() -> tuple[Worker, bool]:
        worker = rng.choice(run.workers)
        if rng.random() < 0.1:
            run.dead.add(f"uid-{worker.name}")
            run.workers.remove(worker)
            run.workers.append(worker := Worker(f"n{rng.random()}"))
        if rng.random() < 0.1:
            run.now += timedelta(seconds=rng.choice([30, 61]))
        return worker, rng.random() < 0.2

    run.until_finished(choose)
    assert set(run.done) == {*range(run.table.plan.total)}


def test_a_shard_is_given_again_when_its_lease_is_over() -> None:
    table, first = Table(plan=plan()).serve(Ask(worker="a", number=2), NOW)
    assert first == (0, 1)
    _, others = table.reclaim(NOW + timedelta(seconds=59), no_one).serve(Ask(worker="b"), NOW)
    assert others == (2,)
    later = NOW + timedelta(seconds=60)
    table, again = table.reclaim(later, no_one).serve(Ask(worker="b"), later)
    assert again == (0,)
    # The first worker was late with both: one is another's by now, the other counts.
    table, _ = table.serve(Ask(worker="a", done=frozenset({0, 1}), number=0), later)
    assert (table.done, table.undone) == (1, frozenset({0}))


def test_each_request_renews_the_lease_of_a_worker() -> None:
    table, _ = Table(plan=plan()).serve(Ask(worker="a"), NOW)
    later = NOW + timedelta(seconds=40)
    table, _ = table.serve(Ask(worker="a", holds=frozenset({0}), number=0), later)
    assert table.reclaim(later + timedelta(seconds=59), no_one) is table


def test_a_worker_that_leaves_gives_back_what_it_has_not_done() -> None:
    table, _ = Table(plan=plan()).serve(Ask(worker="a", number=3), NOW)
    table, _ = table.serve(Ask(worker="a", done=frozenset({1}), leaves=True), NOW)
    assert (sorted(table.again), dict(table.leases), table.done) == ([0, 2], {}, 1)


def test_a_restored_position_gives_out_what_was_not_done() -> None:
    table, _ = Table(plan=plan()).serve(Ask(worker="a", number=4), NOW)
    table, _ = table.serve(Ask(worker="a", done=frozenset({0, 2}), holds=frozenset({1, 3})), NOW)
    saved = table.after, table.undone
    table, _ = table.serve(Ask(worker="a", done=frozenset({1, 3, 4}), number=2), NOW)
    table = table.restored(*saved)
    # What the worker did after the checkpoint does not count any more.
    old = Ask(worker="a", generation=0, done=frozenset({5, 1}), number=0)
    table, _ = table.serve(old, NOW)
    _, given = table.serve(Ask(worker="b", number=9), NOW)
    assert given == (1, 3, 4, 5, 6, 7)


def test_a_worker_holds_a_bounded_number_of_shards() -> None:
    table = Table(plan=plan(size=1000, shard_size=1))
    table, given = table.serve(Ask(worker="a", number=1000), NOW)
    assert len(given) == MAX_AT_ONCE
    _, more = table.serve(Ask(worker="a", holds=frozenset(given), number=1), NOW)
    assert more == ()


def test_no_more_shards_are_given_out_than_the_object_can_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tables, "MAX_UNDONE", 3)
    table, first = Table(plan=plan()).serve(Ask(worker="a", number=2), NOW)
    table, second = table.serve(Ask(worker="b", number=2), NOW)
    assert (first, second) == ((0, 1), (2,))
    _, third = table.serve(Ask(worker="a", done=frozenset(first), number=2), NOW)
    assert third == (3, 4)


def test_the_epoch_is_that_of_the_first_shard_that_is_not_done() -> None:
    table, _ = Table(plan=plan()).serve(Ask(worker="a", number=8), NOW)
    assert (table.epoch, table.done) == (0, 0)
    table, _ = table.serve(Ask(worker="a", done=frozenset(range(4)), number=0), NOW)
    assert table.epoch == 1
    table, _ = table.serve(Ask(worker="a", done=frozenset(range(8)), number=0), NOW)
    assert (table.epoch, table.is_finished) == (1, True)


def test_workers_that_use_up_their_leases_are_slow() -> None:
    table, _ = Table(plan=plan()).serve(Ask(worker="a"), NOW)
    table, _ = table.serve(Ask(worker="b"), NOW + timedelta(seconds=20))
    assert table.slow_workers(NOW + timedelta(seconds=40), 5) == ("a",)
    assert table.slow_workers(NOW + timedelta(seconds=55), 1) == ("a",)
