"""Records on their way to a database that fails, is slow, or is away for long."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from sqlalchemy.exc import OperationalError

from di_history import batches as module
from di_history.batches import Batches
from di_history.metrics import Metrics
from di_history.records import Entry, EntryKind, Millis, Record
from di_history.store.writer import Writer
from tests.waiting import wait_until


class Database:
    """Takes what is written, unless it is away."""

    def __init__(self) -> None:
        self.kept: list[Record] = []
        self.marks: list[Millis | None] = []
        self.away = False
        self.refused = 0

    def write(self, batch: Iterable[Record], *, followed: Millis | None = None) -> None:
        if self.away:
            self.refused += 1
            raise OperationalError("INSERT", {}, Exception("away"))
        self.kept += batch
        self.marks.append(followed)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_PAUSE", "_LONGEST_PAUSE", "_GATHER_SECONDS"):
        monkeypatch.setattr(module, name, 0.01)


@contextmanager
def running(
    database: Database, followed: Millis | None = 9, metrics: Metrics | None = None
) -> Iterator[Batches]:
    clock = iter(range(1_000_000))
    found = Batches(
        writer=cast(Writer, database),
        metrics=metrics or Metrics(),
        followed=lambda: followed,
        clock=lambda: float(next(clock)),
        rng=random.Random(1),
    )
    thread = threading.Thread(target=found.run)
    thread.start()
    try:
        yield found
    finally:
        found.end()
        thread.join(60)
        assert not thread.is_alive()


def entry(number: int, *, job: str = "u1") -> Entry:
    return Entry(job=job, key=str(number), kind=EntryKind.EVENT, at=number)


def count(metrics: Metrics, name: str) -> float:
    return metrics.registry.get_sample_value(f"di_history_{name}") or 0.0


def test_records_are_written_once_and_in_order() -> None:
    database, records = Database(), [entry(i) for i in range(2500)]
    with running(database) as batches:
        batches.put("rl", records)
        assert batches.drained(10)
    assert database.kept == records


def test_records_wait_for_an_unreachable_database() -> None:
    database, records = Database(), [entry(i) for i in range(1500)]
    database.away = True
    with running(database) as batches:
        batches.put("rl", records)
        wait_until(lambda: database.refused >= 3)
        assert not batches.drained(0)
        database.away = False
        assert batches.drained(10)
    assert database.kept == records


def test_pending_records_are_written_at_the_end() -> None:
    database = Database()
    with running(database) as batches:
        batches.put("rl", [entry(1)])
    assert database.kept == [entry(1)]


def test_a_mark_is_written_when_no_record_waits() -> None:
    database = Database()
    with running(database):
        wait_until(lambda: 9 in database.marks)


def test_no_mark_is_written_while_a_watch_is_down() -> None:
    database = Database()
    with running(database, followed=None) as batches:
        batches.put("rl", [entry(1)])
        assert batches.drained(10)
    assert set(database.marks) == {None}


@pytest.mark.proves("history.md#shares/records")
@pytest.mark.proves("metrics.md#history/di-history-records-dropped-total")
def test_a_namespace_with_too_many_records_loses_only_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    database, metrics = Database(), Metrics()
    database.away = True
    small = [entry(i, job="small") for i in range(100)]
    large = [entry(i, job=f"large-{i % 3}") for i in range(20_000)]
    with running(database, metrics=metrics) as batches:
        for i, each in enumerate(large):
            batches.put("loud", [each])
            if i % 200 == 0:
                batches.put("quiet", [small[i // 200]])
        assert count(metrics, "waiting_bytes") <= 1 << 20
        database.away = False
        assert batches.drained(10)
    assert [each for each in database.kept if each in small] == small
    dropped = count(metrics, "records_dropped_total")
    assert dropped == len(large) + len(small) - len(database.kept)
    assert dropped > 10_000


def test_a_job_that_lost_records_is_written_again_after_it_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    database = Database()
    database.away = True
    with running(database) as batches:
        # What waits of another job shows that the database is away.
        batches.put("rl", [entry(0, job="u2"), *(entry(i) for i in range(2000))])
        assert batches.lost(10) == []
        database.away = False
        wait_until(lambda: batches.lost(10) == ["u1"])
        # It would be kept after a hole.
        batches.put("rl", [entry(5000)])
        assert set(database.marks) <= {None}
        batches.resume(["u1"])
        assert batches.lost(10) == []
        batches.put("rl", [entry(6000)])
        wait_until(lambda: entry(6000) in database.kept)
        wait_until(lambda: 9 in database.marks)
    assert entry(5000) not in database.kept


def test_a_new_run_of_the_follower_has_lost_nothing_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    database = Database()
    database.away = True
    with running(database) as batches:
        batches.put("rl", [entry(i) for i in range(2000)])
        database.away = False
        assert batches.drained(10)
        batches.put("rl", [entry(6000)])
        assert batches.drained(10)
    assert database.kept[-1] == entry(6000)
