"""What one tenant stores is bounded, and costs another one nothing; on both databases."""

from __future__ import annotations

import base64
import random
import secrets
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from alembic import command
from sqlalchemy import Connection, Engine, func, select, text, update

from di_history.packing import pack
from di_history.records import JobGone, Record, Revision, Sample
from di_history.store import retention
from di_history.store.engine import migrate, migrations, open_engine, size_of
from di_history.store.reader import Reader, Wanted
from di_history.store.retention import Retention, Swept, sweep
from di_history.store.tables import logs, placements, revisions
from di_history.store.writer import Writer
from tests.integration.history_records import T0, entry, log, placement, rows, seen
from tests.postgres import new_database
from tests.waiting import wait_until

MIB = 1 << 20
JOB = 10 * MIB
PART = JOB // 5
SECOND = 1000


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.extended)])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An empty database without tables."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/history.db"
    else:
        url = new_database(request.getfixturevalue("postgres"), f"test_{secrets.token_hex(5)}")
    engine = open_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture
def writer(engine: Engine) -> Writer:
    migrate(engine)
    return Writer(engine, job_log_bytes=MIB, job_bytes=JOB)


def manifest(seed: int, size: int, **spec: object) -> bytes:
    """JSON that does not compress below `size`."""
    noise = base64.b64encode(random.Random(seed).randbytes(size)).decode()
    return orjson.dumps({"spec": {"tasks": [noise], **spec}})


def revision(number: int, body: bytes, *, job: str = "a", at: int | None = None) -> Revision:
    return Revision(
        job=job,
        number=number,
        at=T0 + number * SECOND if at is None else at,
        who="ann",
        manifest=body,
    )


def ended_jobs(count: int, *, namespace: str, size: int) -> list[Record]:
    return [
        each
        for number in range(count)
        for each in (
            seen(
                f"{namespace}{number}",
                namespace=namespace,
                name=f"{namespace}{number}",
                completed=T0 + number,
            ),
            revision(1, manifest(number, size), job=f"{namespace}{number}"),
        )
    ]


def swept(engine: Engine, writer: Writer, size: int) -> Swept:
    return sweep(
        engine,
        Retention(age=10**12, size=size, job=JOB),
        now=T0,
        written=writer.take_unswept(),
        forget_elsewhere=lambda _namespace, _uid: None,
    )


def stored(engine: Engine, job: str = "a") -> int:
    """Bytes of the job's manifests."""
    with engine.connect() as connection:
        return int(
            connection.execute(
                select(func.sum(func.length(revisions.c.manifest))).where(revisions.c.job == job)
            ).scalar_one()
        )


@pytest.mark.proves("history.md#shares/namespace")
@pytest.mark.proves("history.md#shares/manifest")
def test_toggles_by_one_tenant_leave_another_ones_jobs(
    engine: Engine, writer: Writer, reader: Reader
) -> None:
    writer.write(ended_jobs(20, namespace="b", size=100_000))
    on, off = (manifest(1, 900_000, suspend=suspend) for suspend in (False, True))
    for number in range(1, 61):
        body = on if number % 2 else off
        writer.write(
            [
                seen("a", version=number, namespace="a", name="a", snapshot=body),
                revision(number, body),
            ]
        )
    found = swept(engine, writer, 8 * MIB)

    assert (found.crowded, found.aged) == (0, 0)
    assert found.size < 8 * MIB
    assert len(reader.jobs(Wanted(namespace="b"))) == 20
    # Equal manifests are stored once.
    assert stored(engine) < 2 * MIB
    assert [each["number"] for each in reader.revisions("a")][-20:] == list(range(41, 61))
    assert reader.manifest("a", 60) == orjson.loads(off)
    assert reader.manifest("a", 59) == orjson.loads(on)
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            assert size_of(connection) < 16 * MIB


@pytest.mark.proves("history.md#shares/job")
def test_a_live_job_whose_revisions_all_differ_stays_within_its_part(
    engine: Engine, writer: Writer, reader: Reader
) -> None:
    bodies = {number: manifest(number, 300_000) for number in range(1, 41)}
    for number, body in bodies.items():
        writer.write([seen("a", version=number, namespace="a"), revision(number, body)])
        assert stored(engine) <= PART
    kept = [each["number"] for each in reader.revisions("a")]
    assert kept == list(range(41 - len(kept), 41))
    assert len(kept) >= 5
    assert all(reader.manifest("a", number) == orjson.loads(bodies[number]) for number in kept)


def test_a_merged_revision_leaves_its_manifest_to_an_older_equal_one(
    engine: Engine, writer: Writer, reader: Reader
) -> None:
    common = manifest(1, 1000)
    writer.write([revision(1, common, at=T0)])
    # The second one, equal, is merged into the third; the first one is of another minute.
    writer.write([revision(2, common, at=T0 + 60 * SECOND)])
    writer.write([revision(3, manifest(3, 1000), at=T0 + 61 * SECOND)])
    later = T0 + 3600 * SECOND
    writer.write([revision(number, manifest(number, 1000), at=later) for number in range(4, 24)])

    assert [each["number"] for each in reader.revisions("a")] == [1, *range(3, 24)]
    assert reader.manifest("a", 1) == orjson.loads(common)
    assert reader.manifest("a", 2) is None


@pytest.mark.proves("history.md#shares/job")
def test_each_kind_of_a_jobs_records_is_bounded(engine: Engine, writer: Writer) -> None:
    """Characters of four bytes count as four."""
    wide = "\N{GRINNING FACE}" * 1000
    writer.write([seen("u1")])
    for batch in range(30):
        at = T0 + batch
        writer.write(
            [entry(f"{batch}/{number}", at, message=wide) for number in range(40)]
            + [
                replace(placement(f"p{batch}-{number}", at), pod=f"p{number}")
                for number in range(400)
            ]
            + [
                Sample(job="u1", at=at * 1000 + number, values={"x" * 900: 1.0})
                for number in range(100)
            ]
            + [log(f"p{batch}-{number}", b"y" * 2000, at) for number in range(60)]
        )
    found = swept(engine, writer, 1 << 40)

    assert found.size < JOB + 2 * MIB
    counts = rows(engine)
    assert 400 < counts["entries"] < PART // 4000
    assert counts["placements"] == PART // 350
    assert 1500 < counts["samples"] < PART // 900
    with engine.connect() as connection:
        assert connection.execute(select(func.min(placements.c.since))).scalar_one() > T0
        assert connection.execute(select(func.count()).select_from(logs)).scalar_one() < 1800


@pytest.mark.proves("history.md#shares/namespace")
def test_live_jobs_past_their_namespaces_share_shrink(
    engine: Engine, writer: Writer, reader: Reader
) -> None:
    writer.write(ended_jobs(10, namespace="b", size=100_000))
    for number in range(4):
        uid = f"a{number}"
        writer.write([seen(uid, namespace="a", name=uid)])
        writer.write([revision(n, manifest(n, 200_000), job=uid) for n in range(1, 9)])
    found = swept(engine, writer, 3 * MIB)

    assert found.size <= 3 * MIB
    assert found.crowded == 0
    assert len(reader.jobs(Wanted(namespace="b"))) == 10
    # A live job is never given up, nor its newest revision.
    assert len(reader.jobs(Wanted(namespace="a"))) == 4
    assert all(reader.manifest(f"a{number}", 8) for number in range(4))


def test_an_ended_job_goes_before_a_live_one_of_its_namespace_shrinks(
    engine: Engine, writer: Writer, reader: Reader
) -> None:
    writer.write(ended_jobs(4, namespace="a", size=200_000))
    writer.write([seen("live", namespace="a", name="live")])
    writer.write([revision(n, manifest(n, 200_000), job="live") for n in range(1, 5)])
    found = swept(engine, writer, MIB + MIB // 4)

    assert found.crowded == 2
    assert len(reader.revisions("live")) == 4
    assert {each["name"] for each in reader.jobs(Wanted())} == {"live", "a2", "a3"}


def test_a_job_that_only_gets_events_is_weighed(engine: Engine, writer: Writer) -> None:
    writer.write([seen("u1"), JobGone(uid="u1", at=T0)])
    before = swept(engine, writer, 1 << 40).size
    writer.write([entry(str(number), message="m" * 1000) for number in range(100)])
    assert writer.unswept > 100_000
    assert swept(engine, writer, 1 << 40).size > before + 100_000
    assert writer.unswept == 0


def test_a_sweep_and_the_writer_do_not_block_each_other(engine: Engine, writer: Writer) -> None:
    errors: list[Exception] = []
    bodies = [manifest(number, 20_000) for number in range(2)]
    uids = [f"u{number}" for number in range(6)]

    def write() -> None:
        try:
            for number in range(1, 31):
                writer.write(
                    [
                        each
                        for uid in uids
                        for each in (
                            seen(uid, version=number, name=uid),
                            revision(number, bodies[number % 2], job=uid),
                        )
                    ]
                )
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    while thread.is_alive():
        sweep(
            engine,
            Retention(age=10**12, size=1 << 40, job=MIB),
            now=T0,
            written=None,
            forget_elsewhere=lambda _namespace, _uid: None,
        )
    thread.join()

    assert errors == []
    reader = Reader(engine)
    for uid in uids:
        kept = [each["number"] for each in reader.revisions(uid)]
        assert kept[-20:] == list(range(11, 31))
        assert all(
            reader.manifest(uid, number) == orjson.loads(bodies[number % 2]) for number in kept
        )


@pytest.mark.proves("history.md#databases/upgrade")
def test_revisions_of_the_last_version_are_read_and_stored_once(
    engine: Engine, reader: Reader
) -> None:
    with engine.begin() as connection:
        config = migrations()
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
    body = manifest(1, 100_000)
    with engine.begin() as connection:
        old = revisions.insert().values(job="a", who="ann")
        for number in range(1, 6):
            connection.execute(old.values(number=number, at=T0 + number, manifest=pack(body)))
    migrate(engine)
    writer = Writer(engine, job_log_bytes=MIB, job_bytes=JOB)
    assert reader.manifest("a", 3) == orjson.loads(body)
    writer.write([seen("a", namespace="a")])
    swept(engine, writer, 1 << 40)

    assert stored(engine) < 200_000
    assert all(reader.manifest("a", number) == orjson.loads(body) for number in range(1, 6))


@pytest.mark.proves("history.md#databases/rollback")
def test_the_last_version_reads_a_shared_manifest_as_not_kept(
    engine: Engine, writer: Writer, reader: Reader
) -> None:
    body = manifest(1, 1000)
    writer.write([revision(1, body), revision(2, body)])
    # It knows of no other row.
    with engine.begin() as connection:
        connection.execute(update(revisions).values(same_as=None, content=None))
    assert reader.manifest("a", 1) is None
    assert reader.manifest("a", 2) == orjson.loads(body)


@pytest.mark.extended
def test_a_sweep_and_a_writer_of_the_same_job_wait_for_each_other_once(
    postgres: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(new_database(postgres, f"test_{secrets.token_hex(5)}"))
    migrate(engine)
    writer = Writer(engine, job_log_bytes=MIB, job_bytes=JOB)
    writer.write([seen("a"), revision(1, manifest(1, 100))])
    weigh = retention._weigh
    with ThreadPoolExecutor(1) as thread:
        writes: list[Future[None]] = []

        def once_the_writer_waits(connection: Connection, uids: Sequence[str]) -> None:
            if not writes:
                more: list[Record] = [seen("a", version=2), revision(2, manifest(2, 100))]
                writes.append(thread.submit(writer.write, more))
                wait_until(lambda: waiting(engine) > 0, what="the writer to wait")
            weigh(connection, uids)

        monkeypatch.setattr(retention, "_weigh", once_the_writer_waits)
        swept(engine, writer, 100 * MIB)
        writes[0].result()
    assert rows(engine)["revisions"] == 2
    engine.dispose()


def waiting(engine: Engine) -> int:
    """How many sessions wait for a lock."""
    query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    with engine.connect() as connection:
        return int(connection.execute(text(query)).scalar_one())
