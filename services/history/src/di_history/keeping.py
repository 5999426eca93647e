"""The threads of the history: one follows the cluster, one writes, one deletes old data."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from di_api.wording import describe
from di_history.batches import Batches
from di_history.follow import Follower, Known
from di_history.metrics import Metrics
from di_history.records import Millis
from di_history.spool import Room
from di_history.store.engine import migrate
from di_history.store.reader import Reader
from di_history.store.retention import Retention, sweep
from di_history.store.writer import Writer
from di_history.uploads import Uploads
from di_history.whole_logs import StorageError, WholeLogs
from di_kube.backoff import Backoff
from di_kube.config import KubeConfig

_log = structlog.get_logger()

SWEEP_SECONDS: Final = 600.0
_SWEEP_PART: Final = 64
"""A sweep begins early when this fraction of the maximum was written."""
_DRAIN_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSettings:
    """The folder in which whole logs wait for their upload.

    Attributes:
        room: maximum bytes of all logs, compressed.
        most: maximum bytes of one log, before compression.
    """

    folder: Path
    room: int
    most: int


def sweep_is_due(*, waited: float, unswept: int, size: int) -> bool:
    """Return whether to sweep again.

    Args:
        waited: seconds since the last sweep.
        unswept: bytes written since then.
        size: maximum bytes of the history.
    """
    return waited >= SWEEP_SECONDS or unswept >= size // _SWEEP_PART


class Keeper:
    """Runs the threads; each restarts after a delay when it fails."""

    def __init__(
        self,
        *,
        engine: Engine,
        config: KubeConfig,
        namespace: str | None,
        retention: Retention,
        price_label: str,
        log_bytes: int,
        job_log_bytes: int,
        whole_logs: WholeLogs | None,
        spool: SpoolSettings,
        metrics: Metrics,
        now: Callable[[], Millis],
        clock: Callable[[], float],
        rng: Random,
    ) -> None:
        self._engine = engine
        self._config = config
        self._namespace = namespace
        self._retention = retention
        self._price_label = price_label
        self._log_bytes = log_bytes
        self._whole_logs = whole_logs
        self._spool = spool
        self._metrics = metrics
        self._now = now
        self._clock = clock
        self._rng = rng
        self._reader = Reader(engine)
        self._follower: Follower | None = None
        self._last_followed: Millis | None = None
        self._migrated = threading.Event()
        self._ending = threading.Event()
        self._writer = Writer(engine, job_log_bytes=job_log_bytes, job_bytes=retention.job)
        self._batches = Batches(
            writer=self._writer,
            metrics=metrics,
            followed=self._followed,
            clock=clock,
            rng=rng,
        )
        metrics.show_followed(self._age)

    @property
    def is_ready(self) -> bool:
        """Return whether the tables exist."""
        return self._migrated.is_set()

    def start(self) -> None:
        """Start the threads; `end` stops them."""
        threads = [
            # The process waits for the writer, so that accepted records are written if possible.
            threading.Thread(target=target, name=name, daemon=name != "writer")
            for name, target in (
                ("follower", self._follow),
                ("writer", self._write),
                ("sweeper", self._sweep),
            )
        ]
        for thread in threads:
            thread.start()

    def end(self) -> None:
        """Write the accepted records, and accept no more."""
        self._ending.set()
        self._batches.end()

    def _follow(self) -> None:
        backoff = Backoff(minimum=1.0, maximum=30.0, rng=self._rng)
        while not self._ending.is_set():
            began = self._clock()
            try:
                if not self._migrated.is_set():
                    migrate(self._engine)
                    self._migrated.set()
                # Waiting records are written first, because the next run begins with them.
                if not self._batches.drained(_DRAIN_SECONDS):
                    continue
                self._follower = Follower(
                    config=self._config,
                    namespace=self._namespace,
                    known=self._known(None),
                    recall=self._known,
                    has_log=partial(self._reader.has_log, whole=self._whole_logs is not None),
                    put=self._batches.put,
                    lost=self._batches.lost,
                    resume=self._batches.resume,
                    price_label=self._price_label,
                    log_bytes=self._log_bytes,
                    uploads=self._uploads,
                    metrics=self._metrics,
                    now=self._now,
                    clock=self._clock,
                    rng=self._rng,
                )
                asyncio.run(self._follower.run())
            except SQLAlchemyError as error:
                _log.warning("the database cannot be used", error=describe(error))
            except Exception:
                _log.exception("following failed")
            finally:
                self._follower = None
            self._metrics.restarts.inc()
            if self._clock() - began > 60.0:
                backoff.reset()
            self._ending.wait(backoff.delay())

    def _uploads(self) -> Uploads | None:
        if self._whole_logs is None:
            return None
        return Uploads(
            self._whole_logs,
            room=Room(folder=self._spool.folder, most=self._spool.room),
            most=self._spool.most,
            put=self._batches.put,
            metrics=self._metrics,
            clock=self._clock,
            rng=self._rng,
        )

    def _write(self) -> None:
        while not self._migrated.wait(_LOOK_SECONDS):
            if self._ending.is_set():
                return
        while not self._ending.is_set():
            try:
                self._batches.run()
            except Exception:
                _log.exception("writing failed")
                self._ending.wait(1.0)

    def _sweep(self) -> None:
        self._migrated.wait()
        # The records of an earlier process are unknown.
        written: set[str] | None = None
        while not self._ending.is_set():
            found = self._writer.take_unswept()
            written = None if written is None else written | found
            try:
                swept = sweep(
                    self._engine,
                    self._retention,
                    now=self._now(),
                    written=written,
                    forget_elsewhere=self._forget_elsewhere,
                )
                written = set()
                self._metrics.size.set(swept.size)
                self._metrics.given_up.labels("age").inc(swept.aged)
                self._metrics.given_up.labels("room").inc(swept.crowded)
            except (SQLAlchemyError, StorageError) as error:
                _log.warning("not all was given up that is old", error=describe(error))
            except Exception:
                _log.exception("sweeping failed")
            self._until_sweep()

    def _until_sweep(self) -> None:
        began = self._clock()
        while not self._ending.wait(_LOOK_SECONDS):
            if sweep_is_due(
                waited=self._clock() - began,
                unswept=self._writer.unswept,
                size=self._retention.size,
            ):
                return

    def _forget_elsewhere(self, namespace: str, uid: str) -> None:
        if self._whole_logs is not None:
            self._whole_logs.forget(namespace, uid)

    def _known(self, uids: Collection[str] | None) -> Known:
        """Return the written data of these jobs, or None: of all."""
        return Known(
            jobs=self._reader.snapshots(uids),
            placed=self._reader.placed(uids),
            followed=self._reader.followed(),
        )

    def _followed(self) -> Millis | None:
        follower = self._follower
        found = follower.followed() if follower is not None else None
        if found is not None:
            self._last_followed = found
        return found

    def _age(self) -> float | None:
        last = self._followed() or self._last_followed
        return None if last is None else (self._now() - last) / 1000
