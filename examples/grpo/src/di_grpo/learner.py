"""The first learner: improves the weights by samples, and scales the engines that bring them."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from di_grpo.book import Book
from di_grpo.di_server import DIServer
from di_grpo.grpo import advantages, gradient
from di_grpo.hub import serve
from di_grpo.model.weights import Weights
from di_grpo.peers import PORT, Peers
from di_grpo.record import Record
from di_grpo.reports import Report, Reports
from di_grpo.samples import Batch
from di_grpo.scaling import Step, Window, wanted_change
from di_grpo.shares import Share, split
from di_grpo.state import State

log = logging.getLogger(__name__)

ENGINES = "rollout"
"""The task whose replicas are the engines."""
BATCHES = 4
"""Batches of a step."""
PATIENCE_SECONDS = 5.0
"""How long to wait for samples before saying so in the log."""
LEASE_SECONDS = 3.0
"""A learner that took a share and is silent for so long has lost it; a share takes 0.1 s or so."""
FAREWELL_SECONDS = 30.0
"""How long to stay for those who have not yet heard that training is over."""


class NotLearned(Exception):
    """The target was not reached within the steps allowed."""


class Interrupted(Exception):
    """The pod was asked to leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What training is told.

    Attributes:
        base: file with the weights to begin with.
        folder: where to keep what another process of this pod goes on from.
        target: pass@1 at which training is over.
        most_steps: training that has not reached it by then has failed.
    """

    base: Path
    folder: Path
    target: float
    most_steps: int


def run(peers: Peers, settings: Settings, leaving: threading.Event) -> None:
    """Train until the evaluator finds the target reached.

    Raises:
        NotLearned: it did not within the steps allowed.
        Interrupted: `leaving` was set first.
    """
    state = State.load(settings.folder)
    if state is None:
        state = State.first(settings.base, engines=peers.engines)
    log.info("begins with version %d, %d engines", state.version, state.engines)
    book = Book(clock=time.monotonic)
    book.publish(state.version, state.weights)
    hub = serve(book.answer, port=PORT)
    try:
        server = DIServer(peers=peers, run=f"{peers.job_id.replace('/', '.')}-{time.time_ns()}")
        training = _Training(state, settings, book, server, learners=len(peers.learners))
        training.run(leaving)
        book.finish()
        others = {f"{peers.task}-{index}" for index in range(1, len(peers.learners))}
        _farewell(book, others)
    finally:
        hub.shutdown()


class _Training:
    def __init__(
        self, state: State, settings: Settings, book: Book, server: DIServer, *, learners: int
    ) -> None:
        self._state, self._settings, self._book, self._server = state, settings, book, server
        self._learners = learners
        self._started = time.monotonic() - state.seconds
        self._window = Window(time.monotonic())
        self._record = Record(state, settings.target)

    def run(self, leaving: threading.Event) -> None:
        reports = Reports(self._report)
        try:
            while self._record.best < self._settings.target:
                self._scale()
                if self._state.version >= self._settings.most_steps:
                    raise NotLearned(
                        f"pass@1 {self._record.best} after {self._state.version} steps"
                    )
                self._step(leaving)
                if self._note_evaluations():
                    reports.tell(self._record.profilings(self._window))
        finally:
            reports.finish()
        log.info("learned: pass@1 %.3f, version %d", self._record.best, self._state.version)

    def _report(self, measured: Report) -> None:
        """With who is there, and which weights each of them has."""
        board = self._server.members(ENGINES)
        members = [{"pod": pod, **says} for pod, says in sorted(board.items())]
        self._server.report({**measured, "members": members})

    def _step(self, leaving: threading.Event) -> None:
        began = time.monotonic()
        batches = self._samples(leaving)
        waited = time.monotonic() - began
        state = self._state
        state.weights = state.adam.step(state.weights, self._gradient(batches))
        state.version += 1
        left = self._book.left()
        state.drained, state.lost = state.drained + len(left), state.lost + sum(left)
        state.seconds = time.monotonic() - self._started
        # Before anybody has them: a version is the same weights to all, whoever is killed.
        state.save(self._settings.folder)
        self._book.publish(state.version, state.weights)
        seconds = time.monotonic() - began
        dropped = self._book.dropped()
        self._window.add(Step(seconds=seconds, waited=waited, used=len(batches), stale=dropped))

    def _samples(self, leaving: threading.Event) -> list[Batch]:
        while True:
            if leaving.is_set():
                raise Interrupted("asked to leave before training was done")
            if batches := self._book.take(BATCHES, seconds=PATIENCE_SECONDS):
                return batches
            log.info("version %d: no samples", self._state.version)

    def _gradient(self, batches: list[Batch]) -> Weights:
        """That of all samples: each learner computes its share, the first one what is left."""
        whole = Share(
            index=0,
            version=self._state.version,
            texts=np.concatenate([batch.texts for batch in batches]),
            advantages=advantages(np.concatenate([batch.rewards for batch in batches])),
            log_probabilities=np.concatenate([batch.log_probabilities for batch in batches]),
        )
        self._book.open(split(whole, self._learners), lease=LEASE_SECONDS)
        while share := self._book.take_share():
            self._book.give(share.version, share.index, gradient(self._state.weights, share))
        return self._book.mean_gradient()

    def _note_evaluations(self) -> bool:
        evaluations = self._book.new_evaluations()
        for evaluation in evaluations:
            self._record.note(evaluation["passAt1"], self._window)
            log.info(
                "version %d: pass@1 %.3f, waiting %.2f, stale %.2f, %d engines",
                *(evaluation["version"], evaluation["passAt1"]),
                *(self._window.waiting, self._window.stale, self._state.engines),
            )
        return bool(evaluations)

    def _scale(self) -> None:
        if not self._window.is_conclusive(time.monotonic()):
            return
        change = wanted_change(
            engines=self._state.engines, waiting=self._window.waiting, stale=self._window.stale
        )
        if not change:
            return
        engines = self._server.scale(ENGINES, change)
        # Also after a refusal: asked at every step it would be the same.
        self._window.change(time.monotonic())
        if engines is not None:
            log.info("engines: %d -> %d", self._state.engines, engines)
            self._state.engines = engines


def _farewell(book: Book, others: set[str]) -> None:
    deadline = time.monotonic() + FAREWELL_SECONDS
    while not book.everyone_told(awaited=others) and time.monotonic() < deadline:
        time.sleep(0.1)
