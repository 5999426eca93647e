"""Whole logs in a real S3-compatible storage: kept, read, deleted, and waited for."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from di_certs.files import CA_CERTIFICATE, write_certificates
from di_cluster.cluster import Cluster
from di_history.metrics import Metrics
from di_history.records import Record, WholeLog
from di_history.spool import Room
from di_history.uploads import Uploads
from di_history.whole_logs import StorageError, WholeLogs, key_of, open_bucket
from tests.ports import held_port
from tests.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, Storage, running_storage
from tests.unit.history.test_ended_logs import wanted
from tests.waiting import wait_until_async

pytestmark = pytest.mark.extended  # of the S3 server that is built for it

MIB = 1 << 20
REGION = "us-east-1"


@pytest.fixture(scope="module")
def program() -> Path:
    return Cluster().binary("versitygw")


@pytest.fixture(scope="module")
def storage(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storage]:
    with running_storage(program, tmp_path_factory.mktemp("storage")) as found:
        yield found


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


def bucket(storage: Storage, prefix: str, authority: bytes | None = None) -> WholeLogs:
    return open_bucket(
        f"s3://{BUCKET}/{prefix}", endpoint=storage.endpoint, region=REGION, authority=authority
    )


def test_an_object_is_what_gunzip_takes(storage: Storage) -> None:
    logs = bucket(storage, "kept")
    # More than one part of an upload, and nothing that compresses.
    text = os.urandom(12 * MIB)
    packed = gzip.compress(text)

    logs.keep("rl/u1/a.log.gz", (packed[at : at + MIB] for at in range(0, len(packed), MIB)))

    assert storage.objects() == ["kept/rl/u1/a.log.gz"]
    assert gzip.decompress(storage.read("kept/rl/u1/a.log.gz")) == text
    assert b"".join(logs.read("rl/u1/a.log.gz")) == text


def test_of_a_log_that_repeats_itself_little_is_in_memory_at_once(storage: Storage) -> None:
    logs = bucket(storage, "bomb")
    logs.keep("rl/u1/a.log.gz", [gzip.compress(bytes(200 * MIB))])

    sizes = [len(part) for part in logs.read("rl/u1/a.log.gz")]

    assert sum(sizes) == 200 * MIB
    assert max(sizes) <= MIB


def test_a_job_is_forgotten_with_what_nobody_knows_of(storage: Storage) -> None:
    logs = bucket(storage, "forgotten")
    for key in ("rl/u1/a/0.log.gz", "rl/u1/b/0.log.gz", "rl/u11/a/0.log.gz", "else/u1/a/0.log.gz"):
        logs.keep(key, [gzip.compress(b"x")])

    logs.forget("rl", "u1")
    logs.forget("rl", "u1")

    left = [each for each in storage.objects() if each.startswith("forgotten/")]
    assert left == ["forgotten/else/u1/a/0.log.gz", "forgotten/rl/u11/a/0.log.gz"]
    with pytest.raises(KeyError):
        logs.read("rl/u1/a/0.log.gz")


def test_what_is_no_log_is_an_error_of_its_own(storage: Storage) -> None:
    logs = bucket(storage, "broken")
    logs.keep("rl/u1/a.log.gz", [b"not compressed"])
    with pytest.raises(StorageError, match="incorrect header check"):
        b"".join(logs.read("rl/u1/a.log.gz"))


def test_who_may_not_is_told_so_without_the_key(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    logs = bucket(storage, "refused")
    with pytest.raises(StorageError) as caught:
        logs.keep("rl/u1/a.log.gz", [b"x"])
    assert "another-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(StorageError):
        logs.forget("rl", "u1")


def test_a_storage_is_known_by_the_authority_that_is_named(program: Path, tmp_path: Path) -> None:
    write_certificates(tmp_path, ["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    served = tmp_path / "tls.crt", tmp_path / "tls.key"
    with running_storage(program, tmp_path, certificate=served) as storage:
        with pytest.raises(StorageError):
            bucket(storage, "known").forget("rl", "u1")
        logs = bucket(storage, "known", (tmp_path / CA_CERTIFICATE).read_bytes())
        logs.keep("rl/u1/a.log.gz", [gzip.compress(b"x")])
        assert b"".join(logs.read("rl/u1/a.log.gz")) == b"x"


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("rl-logs", ""),
        ("s3://", ""),
        ("https://rl-logs", ""),
        ("s3://rl-logs?x=1", ""),
        ("s3://rl-logs", "s3.example:9000"),
    ],
)
def test_a_place_that_means_nothing_is_refused(url: str, endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"is not (s3|https)://"):
        open_bucket(url, endpoint=endpoint, region=REGION, authority=None)


@pytest.mark.proves("history.md#whole-logs")
def test_logs_wait_while_the_storage_is_away(program: Path, tmp_path: Path) -> None:
    records: list[WholeLog] = []

    def put(_namespace: str, found: Iterable[Record]) -> None:
        records.extend(each for each in found if isinstance(each, WholeLog))

    async def run(port: int) -> None:
        with running_storage(program, tmp_path, port=port) as first:
            logs = bucket(first, "waited")
        room = Room(folder=tmp_path, most=MIB)
        uploads = Uploads(
            logs,
            room=room,
            most=MIB,
            put=put,
            metrics=Metrics(),
            clock=lambda: 0.0,
            rng=Random(1),
        )
        spool = uploads.spool("rl")
        spool.take(b"all of it\n")
        uploads.add(wanted(), spool)
        task = asyncio.create_task(uploads.run())
        await asyncio.sleep(0)
        assert records == []

        async def stored() -> bool:
            return bool(records)

        with running_storage(program, tmp_path, port=port) as second:
            await wait_until_async(stored, what="it to be stored")
            assert second.objects() == [f"waited/{key_of(wanted())}"]
        task.cancel()

    with held_port() as port:
        asyncio.run(run(port))
    assert records[0].key == key_of(wanted())
