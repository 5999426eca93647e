"""Uploads whole logs to the object storage, with retries while it is unreachable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import structlog

from di_history.changes.pods import LogWanted
from di_history.metrics import Metrics
from di_history.records import Put, WholeLog
from di_history.spool import Room, Spool
from di_history.turns import Turns
from di_history.whole_logs import StorageError, WholeLogs, key_of
from di_kube.backoff import Backoff

_log = structlog.get_logger()

AT_ONCE: Final = 4
PATIENCE: Final = 3600.0
"""Maximum seconds that a log waits for the storage."""
_LONGEST_PAUSE: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    wanted: LogWanted
    spool: Spool
    since: float


class Uploads:
    """Uploads spooled logs, a few at a time; namespaces take turns.

    While the storage is unreachable they wait for an hour, as many as the spool holds; after that
    the storage's error message is recorded. A log that the storage refuses goes to the end of its
    namespace's queue.

    Args:
        most: bytes of each log, before compression.
        clock: returns seconds.
    """

    def __init__(
        self,
        logs: WholeLogs,
        *,
        room: Room,
        most: int,
        put: Put,
        metrics: Metrics,
        clock: Callable[[], float],
        rng: Random,
    ) -> None:
        self._logs = logs
        self._room = room
        self._most = most
        self._put = put
        self._metrics = metrics
        self._clock = clock
        self._backoff = Backoff(minimum=0.5, maximum=_LONGEST_PAUSE, rng=rng)
        self._queue = Turns[_Waiting](workers=AT_ONCE)
        metrics.show_spooled(lambda: room.used)

    def spool(self, namespace: str) -> Spool:
        """Return the spool for the next log of the namespace."""
        return Spool(self._room, namespace=namespace, most=self._most)

    def add(self, wanted: LogWanted, spool: Spool) -> None:
        """Upload a log that was read to its end, after the record of its tail."""
        spool.finish()
        if spool.fault:
            self._lost(wanted, spool.fault)
            spool.close()
        else:
            self._put_back(_Waiting(wanted=wanted, spool=spool, since=self._clock()))

    def _lost(self, wanted: LogWanted, why: str) -> None:
        self._metrics.whole_logs.labels("lost").inc()
        self._put(wanted.namespace, [_record(wanted, note=why)])

    async def run(self) -> None:
        """Upload until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            async with self._queue.turn() as each:
                await self._store(each)

    async def _store(self, each: _Waiting) -> None:
        key = key_of(each.wanted)
        try:
            await asyncio.to_thread(self._logs.keep, key, each.spool.parts())
        except StorageError as error:
            await self._failed(each, str(error))
            return
        self._backoff.reset()
        self._metrics.whole_logs.labels("stored").inc()
        size, cut = each.spool.size, each.spool.cut
        each.spool.close()
        record = _record(each.wanted, key=key, size=size, cut=cut)
        self._put(each.wanted.namespace, [record])

    async def _failed(self, each: _Waiting, why: str) -> None:
        if self._clock() - each.since > PATIENCE:
            each.spool.close()
            self._lost(each.wanted, why)
            return
        self._put_back(each)
        pause = self._backoff.delay()
        _log.warning("a log cannot be stored yet", pod=each.wanted.pod, error=why, pause=pause)
        await asyncio.sleep(pause)

    def _put_back(self, each: _Waiting) -> None:
        # The spool limits what waits, by bytes.
        self._queue.put(each.wanted.namespace, each)


def _record(
    wanted: LogWanted, *, key: str = "", size: int = 0, cut: bool = False, note: str = ""
) -> WholeLog:
    return WholeLog(
        job=wanted.job,
        pod_uid=wanted.pod_uid,
        container=wanted.container,
        attempt=wanted.attempt,
        key=key,
        size=size,
        cut=cut,
        note=note,
    )
