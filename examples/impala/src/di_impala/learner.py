"""The learner: improves the weights by unrolls, and scales the collectors that bring them."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from di_impala.book import Book
from di_impala.di_server import DIServer
from di_impala.hub import serve
from di_impala.improve import Adam, aims, gradient
from di_impala.network import first_weights
from di_impala.peers import PORT, Peers
from di_impala.record import Record
from di_impala.reports import Reports
from di_impala.scaling import PAUSE_SECONDS, Window, wanted_change
from di_impala.unrolls import Batch, Unroll

log = logging.getLogger(__name__)

COLLECTORS = "collector"
"""The task whose replicas are the collectors."""
UNROLLS = 8
"""Of a batch."""
RATE = 5e-3
LOOK_SECONDS = 1.0
"""From one point of the curve, and report of it, to the next."""
PATIENCE_SECONDS = 5.0
"""How long to wait for unrolls before saying so in the log."""


class NotLearned(Exception):
    """The target was not reached within the steps allowed."""


class Interrupted(Exception):
    """The pod was asked to leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What training is told: the mean return at which it is over, and its most steps."""

    target: float
    most_steps: int
    seed: int


def run(peers: Peers, settings: Settings, leaving: threading.Event) -> None:
    """Train until the mean return of the last episodes reaches the target.

    Raises:
        NotLearned: it did not within the steps allowed.
        Interrupted: `leaving` was set first.
    """
    book = Book(clock=time.monotonic)
    server = DIServer(peers=peers, run=f"{peers.job_id.replace('/', '.')}-{time.time_ns()}")
    training = _Training(settings, book, server)
    hub = serve(book.answer, port=PORT)
    try:
        training.run(leaving)
    finally:
        hub.shutdown()


class _Training:
    def __init__(self, settings: Settings, book: Book, server: DIServer) -> None:
        self._settings, self._book, self._server = settings, book, server
        self._weights, self._adam = first_weights(settings.seed), Adam(RATE)
        self._version = 0
        self._began = self._looked = time.monotonic()
        self._window = Window(began=self._began)
        self._record = Record(settings.target)
        book.publish(self._version, self._weights)

    def run(self, leaving: threading.Event) -> None:
        reports = Reports(self._server.report)
        try:
            while self._book.mean_return() < self._settings.target:
                if self._version >= self._settings.most_steps:
                    found = self._book.mean_return()
                    raise NotLearned(f"mean return {found:.1f} after {self._version} steps")
                self._step(leaving)
                if time.monotonic() - self._looked >= LOOK_SECONDS:
                    self._look(reports)
                    self._scale()
            self._look(reports)
        finally:
            reports.finish()
        log.info("learned: mean return %.1f, version %d", self._record.curve[-1][2], self._version)

    def _step(self, leaving: threading.Event) -> None:
        began = time.monotonic()
        unrolls = self._unrolls(leaving)
        self._window.waited += time.monotonic() - began
        self._window.used += len(unrolls)
        self._window.behind += sum(self._version - unroll.version for unroll in unrolls)
        self._window.dropped += self._book.dropped()
        batch = Batch.of(unrolls)
        slopes = gradient(self._weights, batch, aims(self._weights, batch))
        self._weights = self._adam.step(self._weights, slopes)
        self._version += 1
        self._book.publish(self._version, self._weights)

    def _unrolls(self, leaving: threading.Event) -> list[Unroll]:
        while True:
            if leaving.is_set():
                raise Interrupted("asked to leave before training was done")
            if unrolls := self._book.take(UNROLLS, seconds=PATIENCE_SECONDS):
                return unrolls
            log.info("version %d: %d collectors present", self._version, self._book.collectors())

    def _look(self, reports: Reports) -> None:
        self._looked = now = time.monotonic()
        seconds, found = now - self._began, self._book.mean_return()
        collectors, waiting = self._book.collectors(), self._window.waiting(now)
        lag = self._window.lag
        self._record.curve.append([round(seconds, 2), self._book.env_steps, round(found, 1)])
        log.info(
            "version %d: mean return %.1f, %d environment steps, %d collectors, %.1f behind",
            *(self._version, found, self._book.env_steps, collectors, lag),
        )
        report = self._record.profilings(
            step=self._version,
            env_steps=self._book.env_steps,
            seconds=seconds,
            collectors=collectors,
            waiting=waiting,
            lag=lag,
        )
        reports.tell(report)

    def _scale(self) -> None:
        now = time.monotonic()
        if now - self._window.began < PAUSE_SECONDS:
            return
        change = wanted_change(
            collectors=self._book.collectors(),
            waiting=self._window.waiting(now),
            dropping=self._window.dropping,
        )
        # Also after a refusal: asked at every look it would be the same.
        if change and (there := self._server.scale(COLLECTORS, change)) is not None:
            self._record.scaling.append([round(now - self._began, 2), change])
            log.info("collectors: %+d, %d from now on", change, there)
        self._window = Window(began=time.monotonic())
