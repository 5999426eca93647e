"""Reads logs before their pods are deleted: the tails, and whole logs if configured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from di_history.changes.pods import LogWanted
from di_history.metrics import Metrics
from di_history.records import EndedLog, Millis, Put
from di_history.spool import Spool
from di_history.turns import Turns
from di_history.uploads import Uploads
from di_kube.client import KubeClient
from di_kube.errors import ApiError, NotFound
from di_kube.resources import PODS
from di_kube.streams import Tail
from di_kube.wire import url_path

MOST_READ_AT_ONCE: Final = 8
MOST_WANTED: Final = 20_000
_SECONDS: Final = 20.0
_WHOLE_SECONDS: Final = 120.0
_TRIES: Final = 3
_PAUSE: Final = 1.0
_SHORTEST_LINE: Final = 32
"""Bytes of an empty line with its timestamp."""


class LogReader:
    """Reads requested logs, a few at a time; namespaces take turns.

    Args:
        put: accepts the records.
        has_log: returns whether a log is already kept; called in a thread.
        most: bytes of each log tail.
        uploads: accepts whole logs; None: only tails are kept.
        now: milliseconds.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        put: Put,
        has_log: Callable[[LogWanted], bool],
        most: int,
        uploads: Uploads | None,
        now: Callable[[], Millis],
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._put = put
        self._has_log = has_log
        self._most = most
        self._uploads = uploads
        self._now = now
        self._metrics = metrics
        self._queue = Turns[LogWanted](workers=MOST_READ_AT_ONCE, most=MOST_WANTED)

    def want(self, wanted: Iterable[LogWanted]) -> None:
        """Request logs, which are read soon.

        Beyond MOST_WANTED the newest request of the namespace with the most is recorded as lost.
        """
        if self._most == 0:
            return
        for each in wanted:
            for lost in self._queue.put(each.namespace, each):
                self._lost(lost, "too many logs were to be read at once")

    @property
    def waiting(self) -> int:
        """Return the number of requests that wait."""
        return len(self._queue)

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(MOST_READ_AT_ONCE):
                group.create_task(self._work())
            if self._uploads is not None:
                group.create_task(self._uploads.run())

    async def _work(self) -> None:
        while True:
            async with self._queue.turn() as wanted:
                await self._read(wanted)

    async def _read(self, wanted: LogWanted) -> None:
        # If the database cannot answer, the log is read once more, and written unchanged.
        with suppress(SQLAlchemyError):
            if await asyncio.to_thread(self._has_log, wanted):
                return
        with ExitStack() as stack:
            try:
                text, spool = await self._fetch(wanted, stack)
            except ApiError as error:
                # A read before the end is only a precaution: nothing is lost yet.
                if wanted.final:
                    self._lost(wanted, str(error))
                return
            cut = len(text) >= self._most
            if text and not text[:1].isdigit() and not cut:
                # A text without a leading timestamp is the kubelet's error for a log that it does
                # not find.
                if wanted.final:
                    self._lost(wanted, text.decode("utf-8", "replace"))
                return
            if cut:
                # The tail begins within a line.
                text = text.partition(b"\n")[2] or text
            self._metrics.logs.labels("kept").inc()
            self._put(wanted.namespace, [self._record(wanted, text=text, cut=cut)])
            if self._uploads is not None and spool is not None:
                stack.pop_all()
                self._uploads.add(wanted, spool)

    async def _fetch(self, wanted: LogWanted, stack: ExitStack) -> tuple[bytes, Spool | None]:
        """Return the log's last bytes, and the whole log if configured."""
        is_whole = self._uploads is not None
        path = url_path(
            PODS.path(wanted.namespace, wanted.pod, "log"),
            {
                "container": wanted.container,
                "previous": True if wanted.previous else None,
                "timestamps": True,
                "tailLines": None if is_whole else self._most // _SHORTEST_LINE + 1,
            },
        )
        for attempt in range(_TRIES):
            end = Tail(self._most)
            spool = (
                stack.enter_context(self._uploads.spool(wanted.namespace))
                if self._uploads
                else None
            )

            def take(chunk: bytes, end: Tail = end, spool: Spool | None = spool) -> None:
                end.take(chunk)
                if spool is not None:
                    spool.take(chunk)

            try:
                seconds = _WHOLE_SECONDS if is_whole else _SECONDS
                await self._client.pour(path, take, timeout=seconds)
                return end.read(), spool
            except NotFound:
                raise
            except ApiError:
                stack.close()
                if attempt == _TRIES - 1:
                    raise
                await asyncio.sleep(_PAUSE * 2**attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _lost(self, wanted: LogWanted, why: str) -> None:
        self._metrics.logs.labels("lost").inc()
        self._put(wanted.namespace, [self._record(wanted, text=None, note=why)])

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
