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
from di_history.batches import Batches, Overflow
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
def running(database: Database, followed: Millis | None = 9) -> Iterator[Batches]:
    clock = iter(range(1_000_000))
    found = Batches(
        writer=cast(Writer, database),
        metrics=Metrics(),
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


def entry(number: int) -> Entry:
    return Entry(job="u1", key=str(number), kind=EntryKind.EVENT, at=number)


def test_records_are_written_once_and_in_order() -> None:
    database, records = Database(), [entry(i) for i in range(2500)]
    with running(database) as batches:
        batches.put(records)
        assert batches.drained(10)
    assert database.kept == records


def test_records_wait_for_an_unreachable_database() -> None:
    database, records = Database(), [entry(i) for i in range(1500)]
    database.away = True
    with running(database) as batches:
        batches.put(records)
        wait_until(lambda: database.refused >= 3)
        assert not batches.drained(0)
        database.away = False
        assert batches.drained(10)
    assert database.kept == records


def test_pending_records_are_written_at_the_end() -> None:
    database = Database()
    with running(database) as batches:
        batches.put([entry(1)])
    assert database.kept == [entry(1)]


def test_a_mark_is_written_when_no_record_waits() -> None:
    database = Database()
    with running(database):
        wait_until(lambda: 9 in database.marks)


def test_no_mark_is_written_while_a_watch_is_down() -> None:
    database = Database()
    with running(database, followed=None) as batches:
        batches.put([entry(1)])
        assert batches.drained(10)
    assert set(database.marks) == {None}


@pytest.mark.proves("history.md#shares/records")
def test_after_an_overflow_no_record_is_taken_until_all_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    database = Database()
    database.away = True
    with running(database) as batches:
        with pytest.raises(Overflow):
            batches.put([entry(i) for i in range(2000)])
        # What comes later would be kept after a hole.
        with pytest.raises(Overflow):
            batches.put([entry(5000)])
        database.away = False
        assert batches.drained(10)
        taken = len(database.kept)
        batches.put([entry(6000)])
        assert batches.drained(10)
    assert database.kept == [*(entry(i) for i in range(taken)), entry(6000)]
