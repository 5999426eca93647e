"""What is kept, on both databases: SQLite in a file, and the distribution's PostgreSQL."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from di_history.records import (
    Entry,
    EntryKind,
    JobGone,
    Record,
    Sample,
)
from di_history.store.engine import migrate, open_engine, size_of
from di_history.store.reader import MOST_SAMPLES, Reader, Wanted
from di_history.store.retention import Retention, sweep
from di_history.store.tables import metadata
from di_history.store.writer import Writer
from di_service.settings import SettingsError
from tests.integration.history_records import T0, entry, everything, log, placement, rows, seen

DAY = 86_400_000
FOR_EVER = Retention(age=10_000 * DAY, size=1 << 40, job=40 << 20)


def nowhere(namespace: str, uid: str) -> None:
    """Nothing is kept but the rows."""
    assert namespace
    assert uid


def test_migrations_make_the_tables_that_the_code_uses(engine: Engine) -> None:
    migrate(engine)  # once more: nothing is left to do

    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []


@pytest.mark.proves("history.md#databases/upgrade")
def test_a_migration_that_is_cut_short_leaves_nothing_behind(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("cut")

    engine = open_engine(url)
    with monkeypatch.context() as patched:
        patched.setattr("alembic.operations.Operations.create_index", fail)
        with pytest.raises(RuntimeError, match="cut"):
            migrate(engine)
    assert inspect(engine).get_table_names() == []
    migrate(engine)
    assert "jobs" in inspect(engine).get_table_names()
    engine.dispose()


@pytest.mark.proves("history.md#databases/upgrade")
# Of SQLite there is one replica.
@pytest.mark.extended
@pytest.mark.parametrize("kind", ["postgresql"])
def test_replicas_that_start_together_migrate_once(url: str) -> None:
    engines = [open_engine(url) for _ in range(3)]
    errors: list[Exception] = []

    def start(engine: Engine) -> None:
        try:
            migrate(engine)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(each,)) for each in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    for each in engines:
        each.dispose()


def test_what_is_written_twice_is_there_once(engine: Engine, writer: Writer) -> None:
    writer.write(everything())
    once = rows(engine)
    writer.write(everything())

    assert rows(engine) == once
    assert set(once.values()) == {1}


def test_replicas_that_write_the_same_do_not_wait_for_each_other_for_ever(
    engine: Engine, reader: Reader
) -> None:
    records: list[Record] = [seen(f"u{i}", name=f"x{i}") for i in range(40)]
    records += [entry(f"k{k}", uid=f"u{i}") for i in range(40) for k in range(5)]
    errors: list[Exception] = []

    def write(seed: int) -> None:
        writer = Writer(engine, job_log_bytes=1000, job_bytes=40 << 20)
        shuffled = random.Random(seed).sample(records, len(records))
        try:
            for first in range(0, len(shuffled), 60):
                writer.write(shuffled[first : first + 60])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert errors == []
    assert (rows(engine)["jobs"], rows(engine)["entries"]) == (40, 200)


def test_a_batch_is_written_whole_or_not_at_all(engine: Engine, writer: Writer) -> None:
    bad = replace(placement("p2", T0), since=None)  # type: ignore[arg-type]  # refused by the table

    with pytest.raises(SQLAlchemyError):
        writer.write([*everything(), bad])

    assert set(rows(engine).values()) == {0}


def test_an_earlier_sight_never_replaces_a_later_one(writer: Writer, reader: Reader) -> None:
    writer.write([seen(version=9, phase="Succeeded", completed=T0 + 9), entry("e", version=4, n=4)])
    writer.write([seen(version=8, phase="Running"), entry("e", version=3, n=3)])

    found = reader.job("rl", "x")
    assert found is not None
    assert (found["phase"], found["completed"]) == ("Succeeded", T0 + 9)
    assert [each["n"] for each in reader.timeline("u1")] == [4]


def test_a_placement_ends_once(writer: Writer, reader: Reader) -> None:
    writer.write([placement("p1", T0)])
    writer.write([placement("p1", T0, T0 + 60, version=2)])
    writer.write([placement("p1", T0)])

    assert [each["until"] for each in reader.placements("u1")] == [T0 + 60]


def test_of_two_jobs_of_a_name_the_later_is_meant(writer: Writer, reader: Reader) -> None:
    writer.write([seen("u1"), JobGone(uid="u1", at=T0 + 1), seen("u2", created=T0 + 2)])

    later, earlier = reader.job("rl", "x"), reader.job("rl", "x", "u1")
    assert later is not None
    assert earlier is not None
    assert (later["uid"], later["deleted"]) == ("u2", None)
    assert (earlier["uid"], earlier["deleted"]) == ("u1", T0 + 1)
    assert reader.job("other", "x") is None


def test_jobs_are_listed_by_pages_newest_first(writer: Writer, reader: Reader) -> None:
    ended: dict[str, Any] = {"phase": "Succeeded", "completed": T0 + 50}
    writer.write(
        [
            seen(f"u{i}", name=f"x{i}", created=T0 + i // 2, **ended if i % 3 == 0 else {})
            for i in range(9)
        ]
    )

    first = reader.jobs(Wanted(limit=4))
    rest = reader.jobs(Wanted(limit=10, before=(first[-1]["created"], first[-1]["uid"])))
    names = [each["name"] for each in (*first, *rest)]
    assert names == [f"x{i}" for i in (8, 7, 6, 5, 4, 3, 2, 1, 0)]
    assert [each["name"] for each in reader.jobs(Wanted(is_over=True))] == ["x6", "x3", "x0"]
    assert len(reader.jobs(Wanted(is_over=False))) == 6
    assert [each["uid"] for each in reader.jobs(Wanted(name="x4"))] == ["u4"]
    assert reader.jobs(Wanted(namespace="other")) == []


def test_entries_of_one_second_are_in_the_order_in_which_they_happened(
    writer: Writer, reader: Reader
) -> None:
    def entry(version: int, phase: str, at: int) -> Entry:
        data = {"phase": phase}
        key = f"phase/{version}"
        return Entry(job="u1", key=key, kind=EntryKind.PHASE, at=at, version=version, data=data)

    second = T0 - T0 % 1000
    writer.write(
        [
            seen(),
            entry(11, "Running", second),
            entry(10, "Starting", second),
            # Its own time is exact; the whole second of the one before it is later than it was.
            entry(9, "Rescheduling", second + 400),
            entry(8, "Running", second - 1000),
            # Another process saw the same phase at a later version.
            entry(12, "Running", second + 2000),
        ]
    )

    found = reader.timeline("u1")

    assert [each["phase"] for each in found] == ["Running", "Rescheduling", "Starting", "Running"]
    times = [each["at"] for each in found]
    assert times == sorted(times)


def test_the_mark_goes_with_its_batch_and_never_back(writer: Writer, reader: Reader) -> None:
    assert reader.followed() is None
    writer.write([], followed=T0 + 5)
    writer.write([], followed=T0 + 3)
    bad = replace(placement("p2", T0), since=None)  # type: ignore[arg-type]  # refused by the table
    with pytest.raises(SQLAlchemyError):
        writer.write([bad], followed=T0 + 9)

    assert reader.followed() == T0 + 5


def test_series_get_coarser_with_age(engine: Engine, writer: Writer, reader: Reader) -> None:
    now = T0 + 10 * DAY
    ages = {"hours": (2 * 3_600_000, 60_000), "days": (2 * DAY, 600_000)}
    points = [now - age - i * 10_000 for age, _ in ages.values() for i in range(360)]
    points += [now - i * 10_000 for i in range(180)]
    writer.write([Sample(job="u1", at=at, values={"step": float(at)}) for at in points])

    for _ in range(2):  # the second sweep finds nothing to do
        sweep(engine, FOR_EVER, now=now, written=None, forget_elsewhere=nowhere)
        left = [each["at"] for each in reader.samples("u1")]
        assert [at for at in left if at > now - 3_600_000] == sorted(points[-180:])
        for age, spacing in ages.values():
            there = [at // spacing for at in left if now - age - 3_600_000 < at <= now - age]
            assert len(there) == len(set(there))
            assert len(there) in (3_600_000 // spacing, 3_600_000 // spacing + 1)


def test_a_long_series_is_answered_evenly(writer: Writer, reader: Reader) -> None:
    points = [T0 + i * 1000 for i in range(2 * MOST_SAMPLES + 10)]
    writer.write([Sample(job="u1", at=at, values={"step": 1.0}) for at in points])

    found = [each["at"] for each in reader.samples("u1")]

    assert len(found) <= MOST_SAMPLES
    assert found[-1] == points[-1]
    assert {b - a for a, b in pairwise(found)} == {3000}

    part = {"since": points[3], "until": points[-5]}
    found = [each["at"] for each in reader.samples("u1", **part)]

    assert (found[0], found[-1]) == (points[5], points[-6])
    assert {b - a for a, b in pairwise(found)} == {3000}


@pytest.mark.parametrize("most", [1, 2, 10])
def test_a_series_is_answered_by_as_many_samples_as_are_asked_for(
    writer: Writer, reader: Reader, most: int
) -> None:
    points = [T0 + i * 1000 for i in range(100)]
    writer.write([Sample(job="u1", at=at, values={"step": 1.0}) for at in points])

    found = [each["at"] for each in reader.samples("u1", most=most)]

    assert len(found) == most
    assert found[-1] == points[-1]


def test_a_long_series_has_its_sparse_beginning(writer: Writer, reader: Reader) -> None:
    sparse = [T0 + i * 60_000 for i in range(MOST_SAMPLES)]
    dense = [sparse[-1] + i * 1000 for i in range(1, MOST_SAMPLES)]
    writer.write([Sample(job="u1", at=at, values={"step": 1.0}) for at in (*sparse, *dense)])

    found = [each["at"] for each in reader.samples("u1")]

    assert MOST_SAMPLES // 2 <= len(found) <= MOST_SAMPLES
    assert found[-1] == dense[-1]
    assert max(b - a for a, b in pairwise(found)) <= 120_000


def test_a_series_with_a_long_gap_has_enough_samples_at_both_ends(
    writer: Writer, reader: Reader
) -> None:
    before = [T0 + i * 1000 for i in range(MOST_SAMPLES)]
    after = [before[-1] + DAY * 30 + i * 1000 for i in range(MOST_SAMPLES)]
    writer.write([Sample(job="u1", at=at, values={"step": 1.0}) for at in (*before, *after)])

    found = [each["at"] for each in reader.samples("u1")]

    assert found == [*before[1::2], *after[1::2]]


def test_what_is_old_is_given_up_with_all_that_is_of_it(engine: Engine, writer: Writer) -> None:
    writer.write(everything())
    writer.write([seen("u2", name="y"), entry("a", uid="u2")])

    swept = sweep(
        engine,
        Retention(age=DAY, size=1 << 40, job=40 << 20),
        now=T0 + 2 * DAY,
        written=None,
        forget_elsewhere=nowhere,
    )

    assert (swept.aged, swept.crowded) == (1, 0)
    counts = rows(engine)
    # The job that is there stays, whatever its age.
    assert (counts.pop("jobs"), counts.pop("entries")) == (1, 1)
    assert set(counts.values()) == {0}


def test_when_there_is_too_much_the_jobs_go_that_ended_first(
    engine: Engine, writer: Writer, reader: Reader
) -> None:
    noise = random.Random(1)
    for i in range(6):
        uid = f"u{i}"
        body = replace(log("p1", noise.randbytes(50_000)), job=uid)
        writer.write([seen(uid, name=f"x{i}", completed=T0 + i if i else None), body])

    swept = sweep(
        engine,
        Retention(age=DAY, size=160_000, job=40 << 20),
        now=T0 + 9,
        written=None,
        forget_elsewhere=nowhere,
    )

    assert [each["name"] for each in reader.jobs(Wanted())] == ["x5", "x4", "x0"]
    assert swept.crowded == 3
    assert 150_000 < swept.size <= 160_000


def test_the_weight_of_a_job_is_about_what_it_takes(engine: Engine, writer: Writer) -> None:
    noise = random.Random(1)
    with engine.connect() as connection:
        empty = size_of(connection)
    for i in range(20):
        uid = f"u{i}"
        body = replace(log("p1", noise.randbytes(60_000)), job=uid)
        records: list[Record] = [seen(uid, name=f"x{i}"), body]
        records += [entry(f"k{k}", uid=uid, message="m" * 200) for k in range(200)]
        writer.write(records)
    swept = sweep(engine, FOR_EVER, now=T0, written=None, forget_elsewhere=nowhere)
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        taken = size_of(connection) - empty

    assert 0.6 < swept.size / taken < 1.4


def test_what_is_kept_elsewhere_goes_before_the_rows_that_lead_there(
    engine: Engine, writer: Writer, reader: Reader
) -> None:
    ended = {f"u{i}": seen(f"u{i}", name=f"x{i}", created=T0 + i) for i in range(3)}
    writer.write([*ended.values(), *(JobGone(uid=uid, at=T0) for uid in ended)])
    asked = []

    def forget(namespace: str, uid: str) -> None:
        assert len(reader.jobs(Wanted())) == 3
        asked.append((namespace, uid))
        if len(asked) == 2:
            raise RuntimeError("the storage is away")

    aged = Retention(age=DAY, size=1 << 40, job=40 << 20)
    with pytest.raises(RuntimeError):
        sweep(engine, aged, now=T0 + 2 * DAY, written=None, forget_elsewhere=forget)
    assert len(reader.jobs(Wanted())) == 3

    swept = sweep(engine, aged, now=T0 + 2 * DAY, written=None, forget_elsewhere=forget)

    assert swept.aged == 3
    assert asked[2:] == [("rl", uid) for uid in ended]
    assert reader.jobs(Wanted()) == []


def test_other_databases_are_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="the database is mysql"):
        open_engine("mysql://x/y")
    with pytest.raises(SettingsError, match="no URL"):
        open_engine("not a url")
