"""The learner: opens generations of trials, improves the policy, scales its own collectors."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from di_cartpole.checkpoint import Checkpoint, Checkpoints
from di_cartpole.episodes import SOLVED
from di_cartpole.hub import serve
from di_cartpole.peers import PORT, Peers
from di_cartpole.policy import Search, SearchSettings
from di_cartpole.scaling import DIServer, Progress, wanted_change
from di_cartpole.work import Book

log = logging.getLogger(__name__)

PAIRS = 24
"""Antithetic pairs of trials in a generation."""
MAX_GENERATIONS = 400
"""Training that has not solved the environment by then has failed."""
FAREWELL_SECONDS = 20.0
"""How long to stay for peers that have not yet heard that training is over."""
PATIENCE_SECONDS = 5.0
"""How long to wait for trials before saying so in the log."""
REPORT_SECONDS = 1.0
"""Shortest time between two reports to di-server."""
SAVE_SECONDS = 10.0
"""Time between two checkpoints; the last one is saved when the pod is asked to leave."""
MAX_SEED = 1 << 29
"""Seeds of trials are below this number; the evaluator's are above."""
CURVE_POINTS = 200
"""Points of the curve kept in the job's status; more would pass the limit of a report."""


class NotSolved(Exception):
    """The environment was not solved within the generations allowed."""


class Interrupted(Exception):
    """The pod was asked to leave; the job starts another learner in its place, which goes on."""


@dataclass(slots=True)
class Record:
    """What the learner measured since `started` (seconds of the monotonic clock).

    Attributes:
        curve: [seconds, environment steps, mean return] for each evaluation.
        scaling: [seconds, change of the number of collectors] for each change.
        wait_fraction: share of its time that the learner waits for trials, smoothed.
        saved_step: environment steps of the last checkpoint; None without.
        restore_seconds: from the start of this program to its first generation, if it went on from
            a checkpoint.
    """

    started: float
    curve: list[list[float]] = field(default_factory=list)
    scaling: list[list[float]] = field(default_factory=list)
    wait_fraction: float = 0.0
    extra: int = 0
    saved_step: int | None = None
    restore_seconds: float | None = None

    @property
    def best(self) -> float:
        """The best mean return so far."""
        return max((point[2] for point in self.curve), default=0.0)

    def profilings(self, book: Book, *, generations: int) -> dict[str, Any]:
        """The report for di-server; the curve is thinned to the points that fit."""
        elapsed = time.monotonic() - self.started
        stride = -(-len(self.curve) // CURVE_POINTS) or 1
        collectors, collector_wait = book.collectors()
        report = {
            "reportedAt": datetime.now(UTC).isoformat(timespec="seconds"),
            "envSteps": book.env_steps,
            "envStepsPerSec": round(book.env_steps / elapsed, 1),
            "trainStepsPerSec": round(generations / elapsed, 3),
            "collectors": collectors,
            "learners": 1,
            "learnerWaitFrac": round(self.wait_fraction, 4),
            "collectorWaitFrac": round(collector_wait, 4),
            "batchSize": 2 * PAIRS,
            "curve": self.curve[:-1:stride] + self.curve[-1:],
            "scaling": self.scaling,
            "checkpointStep": self.saved_step,
            "restoreSeconds": self.restore_seconds,
        }
        return {key: value for key, value in report.items() if value is not None}


@dataclass(slots=True, kw_only=True)
class Training:
    """All of a training; a checkpoint holds what is needed to go on with it."""

    seed: int
    began: float
    search: Search
    book: Book
    record: Record
    generation: int = 0

    def checkpoint(self) -> Checkpoint:
        """Where it stands, at the beginning of a generation."""
        return Checkpoint(
            generation=self.generation,
            env_steps=self.book.env_steps,
            seconds=time.monotonic() - self.record.started,
            weights=self.search.weights.tolist(),
            velocity=self.search.velocity.tolist(),
            curve=self.record.curve,
            scaling=self.record.scaling,
            extra=self.record.extra,
        )

    def go_on_from(self, found: Checkpoint) -> None:
        """Stand where it stood, with the time in between left out."""
        self.generation = found.generation
        self.book.env_steps = found.env_steps
        self.search.weights, self.search.velocity = (
            np.array(found.weights),
            np.array(found.velocity),
        )
        self.record.started = time.monotonic() - found.seconds
        self.record.curve, self.record.scaling = found.curve, found.scaling
        self.record.extra, self.record.saved_step = found.extra, found.env_steps


def run(peers: Peers, leaving: threading.Event, checkpoints: Checkpoints, *, seed: int) -> None:
    """Train until the evaluator's mean return over 20 episodes reaches the threshold.

    Raises:
        NotSolved: it did not within `MAX_GENERATIONS`.
        Interrupted: `leaving` was set first. Where checkpoints are kept, all is saved.
        Lost: the checkpoint to go on from is not there.
    """
    began = time.monotonic()
    book = Book(clock=time.monotonic)
    record = Record(started=began)
    search = Search(settings=SearchSettings(), seed=seed)
    training = Training(seed=seed, began=began, search=search, book=book, record=record)
    if found := checkpoints.load():
        training.go_on_from(found)
        log.info("going on from generation %d, step %d", found.generation, found.env_steps)
    hub = serve(book, port=PORT)
    server = DIServer(peers=peers, run=f"{peers.job_id.replace('/', '.')}-{time.time_ns()}")
    try:
        _train(training, server, leaving, checkpoints)
        # Only then: the peers of a learner that was interrupted wait for the next one.
        book.finish()
        _farewell(book)
    finally:
        hub.shutdown()


def _train(
    training: Training, server: DIServer, leaving: threading.Event, checkpoints: Checkpoints
) -> None:
    book, record = training.book, training.record
    goes_on = training.generation > 0
    reported = saved = training.began
    while training.generation < MAX_GENERATIONS:
        try:
            _improve(training, leaving)
        except Interrupted:
            checkpoints.save(training.checkpoint())
            raise
        training.generation += 1
        now = time.monotonic()
        if goes_on and record.restore_seconds is None:
            record.restore_seconds = round(now - training.began, 2)
        _note_evaluations(book, record)
        scaled = _scale(server, record, generation=training.generation - 1)
        if scaled or now - saved >= SAVE_SECONDS:
            saved, checkpoint = now, training.checkpoint()
            if checkpoints.save(checkpoint):
                record.saved_step = checkpoint.env_steps
        solved = record.best >= SOLVED
        if solved or now - reported >= REPORT_SECONDS:
            reported = now
            server.report(record.profilings(book, generations=training.generation))
        if solved:
            log.info("solved: mean return %.1f over 20 episodes", record.best)
            return
    raise NotSolved(f"mean return {record.best:.1f} after {MAX_GENERATIONS} generations")


def _improve(training: Training, leaving: threading.Event) -> None:
    search, book, record = training.search, training.book, training.record
    generation = training.generation
    _stay(leaving)
    opened = time.monotonic()
    # By its number, so that one who goes on draws what would have been drawn.
    rng = np.random.default_rng([training.seed, generation])
    seeds = [int(value) for value in rng.choice(MAX_SEED, size=PAIRS, replace=False)]
    book.open(generation, search.weights.tolist(), seeds, sigma=search.settings.sigma)
    while not book.wait_complete(PATIENCE_SECONDS):
        _stay(leaving)
        log.info("generation %d: %d collectors present", generation, book.collectors()[0])
    waited = time.monotonic() - opened
    search.improve(book.returns())
    share = waited / (time.monotonic() - opened)
    record.wait_fraction = 0.5 * record.wait_fraction + 0.5 * share


def _stay(leaving: threading.Event) -> None:
    if leaving.is_set():
        raise Interrupted("asked to leave before training was done")


def _note_evaluations(book: Book, record: Record) -> None:
    for evaluation in book.new_evaluations():
        elapsed = round(time.monotonic() - record.started, 2)
        record.curve.append([elapsed, book.env_steps, evaluation["meanReturn"]])
        log.info(
            "generation %d: mean return %.1f", evaluation["generation"], evaluation["meanReturn"]
        )


def _scale(server: DIServer, record: Record, *, generation: int) -> bool:
    change = wanted_change(
        Progress(
            generation=generation,
            wait_fraction=record.wait_fraction,
            mean_return=record.best,
            extra=record.extra,
        )
    )
    if not change or not server.scale(change):
        return False
    record.extra += change
    record.scaling.append([round(time.monotonic() - record.started, 2), change])
    log.info("di-server changed the collectors by %+d", change)
    return True


def _farewell(book: Book) -> None:
    deadline = time.monotonic() + FAREWELL_SECONDS
    while not book.everyone_told() and time.monotonic() < deadline:
        time.sleep(0.1)
