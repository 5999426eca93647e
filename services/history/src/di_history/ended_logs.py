"""Reads the ends of logs while they can still be read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from di_api.kube.client import KubeClient
from di_api.kube.errors import ApiError, NotFound
from di_api.kube.resources import PODS
from di_api.kube.wire import url_path
from di_history.changes.pods import LogWanted
from di_history.metrics import Metrics
from di_history.records import EndedLog, Millis, Record

MOST_READ_AT_ONCE: Final = 8
MOST_WANTED: Final = 20_000
_SECONDS: Final = 20.0
_TRIES: Final = 3
_PAUSE: Final = 1.0
_SHORTEST_LINE: Final = 32
"""Bytes of an empty one, with its time."""


class LogReader:
    """Reads the logs that are wanted, a few at a time, the oldest wish first.

    Args:
        put: takes the records.
        has_log: whether a log is kept already; called in a thread.
        most: bytes of each log, its last ones.
        now: milliseconds.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        put: Callable[[Iterable[Record]], None],
        has_log: Callable[[LogWanted], bool],
        most: int,
        now: Callable[[], Millis],
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._put = put
        self._has_log = has_log
        self._most = most
        self._now = now
        self._metrics = metrics
        self._queue: asyncio.Queue[LogWanted] = asyncio.Queue()

    def want(self, wanted: Iterable[LogWanted]) -> None:
        """Have logs read soon; past MOST_WANTED they are recorded as lost at once."""
        if self._most == 0:
            return
        for each in wanted:
            if self._queue.qsize() < MOST_WANTED:
                self._queue.put_nowait(each)
            else:
                self._lost(each, "too many logs were to be read at once")

    @property
    def waiting(self) -> int:
        """How many are still to be read."""
        return self._queue.qsize()

    async def run(self) -> None:
        """Read, for as long as nobody cancels it."""
        async with asyncio.TaskGroup() as group:
            for _ in range(MOST_READ_AT_ONCE):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._read(await self._queue.get())

    async def _read(self, wanted: LogWanted) -> None:
        # While the database does not say so it is read once more, and written as it was.
        with suppress(SQLAlchemyError):
            if await asyncio.to_thread(self._has_log, wanted):
                return
        try:
            text = await self._fetch(wanted)
        except ApiError as error:
            # Before its end only in case that is not seen: nothing is lost yet.
            if wanted.final:
                self._lost(wanted, str(error))
            return
        if text and not text[:1].isdigit() and len(text) < self._most:
            # What begins with no time is the kubelet's excuse for a log that it does not find.
            if wanted.final:
                self._lost(wanted, text.decode("utf-8", "replace"))
            return
        cut = len(text) >= self._most
        if cut:
            # It begins within a line.
            text = text.partition(b"\n")[2] or text
        self._metrics.logs.labels("kept").inc()
        self._put([self._record(wanted, text=text, cut=cut)])

    async def _fetch(self, wanted: LogWanted) -> bytes:
        path = url_path(
            PODS.path(wanted.namespace, wanted.pod, "log"),
            {
                "container": wanted.container,
                "previous": True if wanted.previous else None,
                "timestamps": True,
                "tailLines": self._most // _SHORTEST_LINE + 1,
            },
        )
        for attempt in range(_TRIES):
            try:
                return await self._client.tail(path, most=self._most, timeout=_SECONDS)
            except NotFound:
                raise
            except ApiError:
                if attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(_PAUSE * 2**attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _lost(self, wanted: LogWanted, why: str) -> None:
        self._metrics.logs.labels("lost").inc()
        self._put([self._record(wanted, text=None, note=why)])

    def _record(
        self, wanted: LogWanted, *, text: bytes | None, cut: bool = False, note: str = ""
    ) -> EndedLog:
        return EndedLog(
            job=wanted.job,
            pod_uid=wanted.pod_uid,
            pod=wanted.pod,
            container=wanted.container,
            attempt=wanted.attempt,
            at=self._now(),
            text=text,
            cut=cut,
            final=wanted.final,
            failed=wanted.failed,
            note=note,
        )
