"""The learner: opens generations of trials, improves the policy, scales its own collectors."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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
MAX_SEED = 1 << 29
"""Seeds of trials are below this number; the evaluator's are above."""
CURVE_POINTS = 200
"""Points of the curve kept in the job's status; more would pass the limit of a report."""


class NotSolved(Exception):
    """The environment was not solved within the generations allowed."""


class Interrupted(Exception):
    """The pod was asked to leave; the job starts another learner in its place."""


@dataclass(slots=True)
class Record:
    """What the learner measured since `started` (seconds of the monotonic clock).

    Attributes:
        curve: [seconds, environment steps, mean return] for each evaluation.
        scaling: [seconds, change of the number of collectors] for each change.
        wait_fraction: share of its time that the learner waits for trials, smoothed.
    """

    started: float
    curve: list[list[float]] = field(default_factory=list)
    scaling: list[list[float]] = field(default_factory=list)
    wait_fraction: float = 0.0
    extra: int = 0

    @property
    def best(self) -> float:
        """The best mean return so far."""
        return max((point[2] for point in self.curve), default=0.0)

    def profilings(self, book: Book, *, generations: int) -> dict[str, Any]:
        """The report for di-server; the curve is thinned to the points that fit."""
        elapsed = time.monotonic() - self.started
        stride = -(-len(self.curve) // CURVE_POINTS) or 1
        collectors, collector_wait = book.collectors()
        return {
            "reportedAt": time.time(),
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
        }


def run(peers: Peers, leaving: threading.Event, *, seed: int) -> None:
    """Train until the evaluator's mean return over 20 episodes reaches the threshold.

    Raises:
        NotSolved: it did not within `MAX_GENERATIONS`.
        Interrupted: `leaving` was set first.
    """
    book = Book(clock=time.monotonic)
    hub = serve(book, port=PORT)
    server = DIServer(peers=peers, run=f"{peers.job_id.replace('/', '.')}-{time.time_ns()}")
    try:
        _train(book, server, leaving, seed=seed)
    finally:
        book.finish()
        _farewell(book)
        hub.shutdown()


def _train(book: Book, server: DIServer, leaving: threading.Event, *, seed: int) -> None:
    search = Search(settings=SearchSettings(), seed=seed)
    rng = np.random.default_rng(seed)
    record = Record(started=time.monotonic())
    reported = record.started
    for generation in range(MAX_GENERATIONS):
        if leaving.is_set():
            raise Interrupted("asked to leave before training was done")
        _improve(search, book, record, generation=generation, rng=rng)
        _note_evaluations(book, record)
        _scale(server, record, generation=generation)
        solved = record.best >= SOLVED
        now = time.monotonic()
        if solved or now - reported >= REPORT_SECONDS:
            reported = now
            server.report(record.profilings(book, generations=generation + 1))
        if solved:
            log.info("solved: mean return %.1f over 20 episodes", record.best)
            return
    raise NotSolved(f"mean return {record.best:.1f} after {MAX_GENERATIONS} generations")


def _improve(
    search: Search, book: Book, record: Record, *, generation: int, rng: np.random.Generator
) -> None:
    opened = time.monotonic()
    seeds = [int(value) for value in rng.choice(MAX_SEED, size=PAIRS, replace=False)]
    book.open(generation, search.weights.tolist(), seeds, sigma=search.settings.sigma)
    while not book.wait_complete(PATIENCE_SECONDS):
        log.info("generation %d: %d collectors present", generation, book.collectors()[0])
    waited = time.monotonic() - opened
    search.improve(book.returns())
    share = waited / (time.monotonic() - opened)
    record.wait_fraction = 0.5 * record.wait_fraction + 0.5 * share


def _note_evaluations(book: Book, record: Record) -> None:
    for evaluation in book.new_evaluations():
        elapsed = round(time.monotonic() - record.started, 2)
        record.curve.append([elapsed, book.env_steps, evaluation["meanReturn"]])
        log.info(
            "generation %d: mean return %.1f", evaluation["generation"], evaluation["meanReturn"]
        )


def _scale(server: DIServer, record: Record, *, generation: int) -> None:
    change = wanted_change(
        Progress(
            generation=generation,
            wait_fraction=record.wait_fraction,
            mean_return=record.best,
            extra=record.extra,
        )
    )
    if change and server.scale(change):
        record.extra += change
        record.scaling.append([round(time.monotonic() - record.started, 2), change])
        log.info("di-server changed the collectors by %+d", change)


def _farewell(book: Book) -> None:
    deadline = time.monotonic() + FAREWELL_SECONDS
    while not book.everyone_told() and time.monotonic() < deadline:
        time.sleep(0.1)
