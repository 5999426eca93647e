"""The first learner: improves the weights by samples, and scales the engines that bring them."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import di_orchestrator as di
from di_grpo.book import Book
from di_grpo.grpo import advantages, gradient
from di_grpo.model.weights import Weights
from di_grpo.record import Record
from di_grpo.samples import Batch
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
LOOK_SECONDS = 1.0
"""From one look at the board to the next: each engine changes its entry with each batch."""
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


def run(job: di.Job, settings: Settings) -> None:
    """Train until the evaluator finds the target reached.

    Raises:
        NotLearned: it did not within the steps allowed.
        Interrupted: the pod was asked to leave first.
    """
    state = State.load(settings.folder)
    if state is None:
        state = State.first(settings.base, engines=job.count(ENGINES) or 0)
    log.info("begins with version %d, %d engines", state.version, state.engines)
    book = Book(clock=time.monotonic)
    book.publish(state.version, state.weights)
    with di.Hub(book.answer, job.port(), public=["/ready"]):
        # How many steps there will be: who ends at a target does not know.
        with di.training(samples_from=ENGINES, target=settings.target) as here:
            Training(state, settings, book, here).run()
        book.finish()
        _farewell(book, {f"{job.name}-{job.task}-{index}" for index in range(1, here.learners)})


class Training:
    """A training that goes on from a state."""

    def __init__(self, state: State, settings: Settings, book: Book, here: di.Training) -> None:
        self._state, self._settings, self._book, self._here = state, settings, book, here
        self._started = time.monotonic() - state.seconds
        self._record = Record(state)
        self._lag = 0.0
        self._engines: tuple[di.Member, ...] = ()
        # Until di-server says: later than when the pod started.
        here.now_collects(state.engines)

    def run(self) -> None:
        """Train to the end; see `run`."""
        threading.Thread(target=self._follow, daemon=True, name="board").start()
        while self._record.best < self._settings.target:
            self._scale()
            if self._state.version >= self._settings.most_steps:
                raise NotLearned(f"pass@1 {self._record.best} after {self._state.version} steps")
            batches = self._samples()
            rows, dropped = sum(len(batch.texts) for batch in batches), self._book.dropped()
            mine = rows // self._here.learners
            with self._here.iteration(samples=mine, stale=dropped * mine // len(batches)):
                self._step(batches)
            if self._note_evaluations():
                self._here.report(
                    self._state.version,
                    policy_lag=round(self._lag, 2),
                    **self._record.profilings(self._engines),
                )
        log.info("learned: pass@1 %.3f, version %d", self._record.best, self._state.version)

    def _follow(self) -> None:
        for self._engines in di.watch_members(ENGINES):
            if self._here.leaving.wait(LOOK_SECONDS):
                return

    def _step(self, batches: list[Batch]) -> None:
        state = self._state
        self._lag = sum(state.version - batch.version for batch in batches) / len(batches)
        state.weights = state.adam.step(state.weights, self._gradient(batches))
        state.version += 1
        left = self._book.left()
        state.drained, state.lost = state.drained + len(left), state.lost + sum(left)
        state.seconds = time.monotonic() - self._started
        # Before anybody has them: a version is the same weights to all, whoever is killed.
        state.save(self._settings.folder)
        self._book.publish(state.version, state.weights)

    def _samples(self) -> list[Batch]:
        while True:
            if self._here.stopping:
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
        self._book.open(split(whole, self._here.learners), lease=LEASE_SECONDS)
        while share := self._book.take_share():
            self._book.give(share.version, share.index, gradient(self._state.weights, share))
        return self._book.mean_gradient()

    def _note_evaluations(self) -> bool:
        waiting, stale = self._here.waiting_share or 0.0, self._here.stale_share
        evaluations = self._book.new_evaluations()
        for evaluation in evaluations:
            self._record.note(evaluation["passAt1"], waiting=waiting, stale=stale)
            log.info(
                "version %d: pass@1 %.3f, waiting %.2f, stale %.2f, %d engines",
                *(evaluation["version"], evaluation["passAt1"]),
                *(waiting, stale, self._state.engines),
            )
        return bool(evaluations)

    def _scale(self) -> None:
        engines = self._here.rescale()
        if engines is not None and engines != self._state.engines:
            log.info("engines: %d -> %d", self._state.engines, engines)
            self._state.engines = engines


def _farewell(book: Book, others: set[str]) -> None:
    deadline = time.monotonic() + FAREWELL_SECONDS
    while not book.everyone_told(awaited=others) and time.monotonic() < deadline:
        time.sleep(0.1)
