"""Whole logs wait for the storage only."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import obstore
import pytest
from obstore.store import MemoryStore
from typing_extensions import override

from di_history.changes.pods import LogWanted
from di_history.metrics import Metrics
from di_history.records import Record, WholeLog
from di_history.spool import Room
from di_history.uploads import PATIENCE, Uploads
from di_history.whole_logs import StorageError, WholeLogs, key_of
from tests.unit.history.test_ended_logs import wanted
from tests.waiting import wait_until_async

MIB = 1 << 20


class Unsteady(WholeLogs):
    """Fails a number of times, and always for some keys."""

    def __init__(self, *, failures: int = 0, never: Iterable[str] = ()) -> None:
        self.store = MemoryStore()
        super().__init__(self.store)
        self.failures = failures
        self.never = tuple(never)

    @override
    def keep(self, key: str, parts: Iterable[bytes]) -> None:
        if self.failures > 0 or key in self.never:
            self.failures -= 1
            raise StorageError("503 Slow Down")
        super().keep(key, parts)


def stored(
    logs: Unsteady,
    texts: dict[LogWanted, bytes],
    folder: Path,
    *,
    room: int = MIB,
    clock: Callable[[], float] = lambda: 0.0,
) -> list[WholeLog]:
    """What is recorded of logs that are handed over in that order."""
    records: list[WholeLog] = []
    space = Room(folder=folder, most=room)

    def put(_namespace: str, found: Iterable[Record]) -> None:
        records.extend(each for each in found if isinstance(each, WholeLog))

    async def run() -> None:
        uploads = Uploads(
            logs, room=space, most=MIB, put=put, metrics=Metrics(), clock=clock, rng=Random(1)
        )
        for wish, text in texts.items():
            spool = uploads.spool(wish.namespace)
            spool.take(text)
            uploads.add(wish, spool)
        task = asyncio.create_task(uploads.run())

        async def done() -> bool:
            return len(records) == len(texts)

        await wait_until_async(done, what="all recorded")
        task.cancel()

    asyncio.run(run())
    assert space.used == 0
    return records


@pytest.mark.proves("history.md#whole-logs")
@pytest.mark.parametrize("failures", [0, 2])
def test_a_log_is_uploaded_once_the_storage_accepts_it(tmp_path: Path, failures: int) -> None:
    logs, log = Unsteady(failures=failures), wanted()
    (record,) = stored(logs, {log: b"all of it\n"}, tmp_path)
    assert record.key == "rl/u1/x-learner-0-uid-x-learner-0/di-container-0.log.gz"
    assert (record.size, record.cut, record.note) == (10, False, "")
    kept = obstore.get(logs.store, record.key).bytes()
    assert gzip.decompress(bytes(kept)) == b"all of it\n"
    assert b"".join(logs.read(record.key)) == b"all of it\n"


def test_a_refused_log_does_not_block_others(tmp_path: Path) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += PATIENCE / 6
        return now

    poison, other = wanted("poison"), wanted("other")
    records = stored(
        Unsteady(never=[key_of(poison)]), {poison: b"x", other: b"y"}, tmp_path, clock=clock
    )
    assert [(each.pod_uid, each.note) for each in records] == [
        ("uid-other", ""),
        ("uid-poison", "503 Slow Down"),
    ]


def test_a_log_without_spool_space_is_not_uploaded(tmp_path: Path) -> None:
    logs = Unsteady()
    (record,) = stored(logs, {wanted(): b"x"}, tmp_path, room=0)
    assert (record.key, record.note) == ("", "too many logs wait for the storage")
    assert [each for page in obstore.list(logs.store) for each in page] == []
