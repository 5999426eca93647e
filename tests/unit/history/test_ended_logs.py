"""The ends of logs, read from a fake API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from random import Random
from tempfile import gettempdir
from typing import Any

import pytest
from obstore.store import MemoryStore

from di_history.changes.pods import LogWanted
from di_history.ended_logs import LogReader
from di_history.metrics import Metrics
from di_history.records import EndedLog, Put, Record, WholeLog
from di_history.spool import Room
from di_history.uploads import Uploads
from di_history.whole_logs import WholeLogs, key_of
from di_kube.client import KubeClient
from di_kube.config import KubeConfig
from tests.fakes.api_server import StandIn
from tests.waiting import wait_until_async

LINES = [f"2026-01-01T12:00:00.{i:09}Z line {i}" for i in range(100)]
_POD = "/api/v1/namespaces/rl/pods/x-learner-0"


def wanted(pod: str = "x-learner-0", *, final: bool = True) -> LogWanted:
    return LogWanted(
        job="u1",
        namespace="rl",
        pod=pod,
        pod_uid=f"uid-{pod}",
        container="di-container",
        attempt=0,
        previous=False,
        final=final,
        failed=True,
    )


def read(
    lines: list[str] | None,
    *wishes: LogWanted,
    most: int = 1 << 20,
    kept: Iterable[str] = (),
    whole: WholeLogs | None = None,
    stored: bool = True,
) -> tuple[list[EndedLog], list[str]]:
    """What is handed over, and which paths were asked for."""
    records: list[EndedLog] = []
    whole_records: list[WholeLog] = []
    done = []

    def put(_namespace: str, found: Iterable[Record]) -> None:
        for each in found:
            if isinstance(each, EndedLog):
                records.append(each)
            elif isinstance(each, WholeLog):
                # The row that it is to be found by is written before.
                assert each.pod_uid in [log.pod_uid for log in records]
                whole_records.append(each)

    def has_log(wish: LogWanted) -> bool:
        done.append(wish)
        return wish.pod in kept

    async def run(server: StandIn) -> None:
        config = KubeConfig(server=server.url)
        async with KubeClient(config=config) as client:
            reader = LogReader(
                client=client,
                put=put,
                has_log=has_log,
                most=most,
                uploads=_uploads(whole, put) if whole is not None else None,
                now=lambda: 7,
                metrics=Metrics(),
            )
            reader.want(wishes)
            task = asyncio.create_task(reader.run())
            expected = len([each for each in wishes if each.pod not in kept and each.final])
            await wait_until_async(_async(lambda: len(done) == len(wishes)), what="all asked")
            await wait_until_async(_async(lambda: len(records) >= expected), what="all read")
            if whole is not None and stored:
                await wait_until_async(_async(lambda: whole_records), what="all stored")
            task.cancel()

    with StandIn() as server:
        if lines is not None:
            server.objects[_POD] = {"metadata": {"name": "x-learner-0", "namespace": "rl"}}
            server.logs["x-learner-0"] = lines
        else:
            gone = {"kind": "Status", "code": 404, "message": "x-learner-0 not found"}
            server.refusals["GET", f"{_POD}/log"] = gone
        asyncio.run(run(server))
        return records, [path for _, path, _ in server.requests]


def _uploads(whole: WholeLogs, put: Put) -> Uploads:
    return Uploads(
        whole,
        room=Room(folder=Path(gettempdir()), most=1 << 20),
        most=1 << 20,
        put=put,
        metrics=Metrics(),
        clock=lambda: 0.0,
        rng=Random(1),
    )


def _async(predicate: Any) -> Any:
    async def ask() -> Any:
        return predicate()

    return ask


def test_a_short_log_is_kept_whole() -> None:
    ((log,), (path,)) = read(LINES, wanted())
    assert log.text is not None
    assert log.text.decode().splitlines() == LINES
    assert (log.cut, log.failed, log.at, log.note) == (False, True, 7, "")
    assert "container=di-container" in path
    assert "previous" not in path


@pytest.mark.proves("history.md#what-is-kept/logs")
def test_of_a_longer_log_the_last_whole_lines_are_kept() -> None:
    ((log,), (path,)) = read(LINES, wanted(), most=500)
    assert log.text is not None
    kept = log.text.decode().splitlines()
    assert kept == LINES[-len(kept) :]
    assert 400 < len(log.text) <= 500
    assert log.cut
    assert "tailLines=16" in path


def test_a_longer_log_is_stored_whole_in_object_storage() -> None:
    whole = WholeLogs(MemoryStore())
    ((log,), (path,)) = read(LINES, wanted(), most=500, whole=whole)
    assert log.text is not None
    assert len(log.text) <= 500
    assert b"".join(whole.read(key_of(wanted()))).decode().splitlines() == LINES
    assert "tailLines" not in path


def test_a_missing_log_is_not_stored() -> None:
    whole = WholeLogs(MemoryStore())
    for lines in (None, ["unable to retrieve container logs for containerd://1"]):
        ((log,), _) = read(lines, wanted(), whole=whole, stored=False)
        assert log.text is None
        with pytest.raises(KeyError):
            whole.read(key_of(wanted()))


def test_a_missing_log_is_recorded_as_lost() -> None:
    ((log,), _) = read(None, wanted())
    assert log.text is None
    assert "x-learner-0" in log.note


def test_the_kubelets_error_message_is_no_log() -> None:
    ((log,), _) = read(["unable to retrieve container logs for containerd://1"], wanted())
    assert (log.text, log.note) == (None, "unable to retrieve container logs for containerd://1\n")


def test_a_log_of_a_running_container_is_not_lost_yet() -> None:
    assert read(None, wanted(final=False))[0] == []


def test_a_kept_log_is_not_read_again() -> None:
    assert read(LINES, wanted(), kept=["x-learner-0"]) == ([], [])


def test_with_a_size_of_zero_no_log_is_read() -> None:
    records: list[Record] = []
    reader = LogReader(
        client=KubeClient(config=KubeConfig(server="http://127.0.0.1:9")),
        put=lambda _namespace, found: records.extend(found),
        has_log=lambda _: False,
        most=0,
        uploads=None,
        now=lambda: 7,
        metrics=Metrics(),
    )
    reader.want([wanted()])
    assert reader.waiting == 0
