"""The learner: opens generations of trials, improves the policy, scales its own collectors."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import di_orchestrator as di
from di_cartpole.episodes import SOLVED
from di_cartpole.policy import Search, SearchSettings
from di_cartpole.scaling import Progress, wanted_change
from di_cartpole.wire import answering
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
        extra: collectors that were asked for and not given back.
    """

    started: float
    curve: list[list[float]] = field(default_factory=list)
    scaling: list[list[float]] = field(default_factory=list)
    extra: int = 0

    @property
    def best(self) -> float:
        """The best mean return so far."""
        return max((point[2] for point in self.curve), default=0.0)

    def report(self, book: Book) -> dict[str, Any]:
        """What only this program knows; the curve is thinned to the points that fit."""
        stride = -(-len(self.curve) // CURVE_POINTS) or 1
        collectors, collector_wait = book.collectors()
        return {
            "env_steps": book.env_steps,
            **({"episodeReturn": self.curve[-1][2]} if self.curve else {}),
            "collectors": collectors,
            "collector_wait_frac": round(collector_wait, 4),
            "curve": self.curve[:-1:stride] + self.curve[-1:],
            "scaling": self.scaling,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """All that the learner needs to go on as if it had never been away.

    Attributes:
        generation: the next one to run.
        env_steps: environment steps so far, the step that is reported as saved.
        seconds: of training so far.
        weights, velocity: the search.
        curve, scaling, extra: the record.
    """

    generation: int
    env_steps: int
    seconds: float
    weights: list[float]
    velocity: list[float]
    curve: list[list[float]]
    scaling: list[list[float]]
    extra: int


@dataclass(slots=True, kw_only=True)
class Training:
    """All of a training; a checkpoint holds what is needed to go on with it."""

    seed: int
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
        self.record.extra = found.extra


def run(*, seed: int) -> None:
    """Train until the evaluator's mean return over 20 episodes reaches the threshold.

    Raises:
        NotSolved: it did not within `MAX_GENERATIONS`.
        Interrupted: the pod is to leave. Where checkpoints are kept, all is saved.
        DIError: the checkpoint to go on from is not there.
    """
    book = Book(clock=time.monotonic)
    record = Record(started=time.monotonic())
    search = Search(settings=SearchSettings(), seed=seed)
    training = Training(seed=seed, search=search, book=book, record=record)
    with di.training(save_every=SAVE_SECONDS, batch_size=2 * PAIRS) as here:
        if (found := here.checkpoint.restore()) is not None:
            training.go_on_from(Checkpoint(**json.loads(found.read_text())))
            log.info("going on from generation %d, step %d", training.generation, book.env_steps)
        with di.Hub(answering(book), di.PORT):
            train(training, here)
            # Only then: the peers of a learner that was interrupted wait for the next one.
            book.finish()
            _farewell(book)


def train(training: Training, here: di.Training) -> None:
    """As `run`, whose parts these are."""
    book, record = training.book, training.record
    while training.generation < MAX_GENERATIONS:
        try:
            _improve(training, here)
        except Interrupted:
            _save(training, here)
            raise
        training.generation += 1
        _note_evaluations(book, record)
        if _scale(training, here) or here.checkpoint.is_due:
            _save(training, here)
        here.report(**record.report(book))
        if record.best >= SOLVED:
            log.info("solved: mean return %.1f over 20 episodes", record.best)
            return
    raise NotSolved(f"mean return {record.best:.1f} after {MAX_GENERATIONS} generations")


def _save(training: Training, here: di.Training) -> None:
    def write(path: Path) -> None:
        path.write_text(json.dumps(asdict(training.checkpoint())))

    here.save(write, step=training.book.env_steps)


def _improve(training: Training, here: di.Training) -> None:
    search, book, generation = training.search, training.book, training.generation
    _stay(here)
    here.iteration(samples=2 * PAIRS)
    # By its number, so that one who goes on draws what would have been drawn.
    rng = np.random.default_rng([training.seed, generation])
    seeds = [int(value) for value in rng.choice(MAX_SEED, size=PAIRS, replace=False)]
    book.open(generation, search.weights.tolist(), seeds, sigma=search.settings.sigma)
    with here.waiting():
        while not book.wait_complete(PATIENCE_SECONDS):
            _stay(here)
            log.info("generation %d: %d collectors present", generation, book.collectors()[0])
    search.improve(book.returns())


def _stay(here: di.Training) -> None:
    if here.stopping:
        raise Interrupted("asked to leave before training was done")


def _note_evaluations(book: Book, record: Record) -> None:
    for evaluation in book.new_evaluations():
        elapsed = round(time.monotonic() - record.started, 2)
        record.curve.append([elapsed, book.env_steps, evaluation["meanReturn"]])
        log.info(
            "generation %d: mean return %.1f", evaluation["generation"], evaluation["meanReturn"]
        )


def _scale(training: Training, here: di.Training) -> bool:
    record = training.record
    change = wanted_change(
        Progress(
            generation=training.generation - 1,
            wait_fraction=here.waiting_share or 0.0,
            mean_return=record.best,
            extra=record.extra,
        )
    )
    if not change:
        return False
    try:
        di.scale("collector", change)
    except di.DIError as error:
        log.warning("%s", error)
        return False
    record.extra += change
    record.scaling.append([round(time.monotonic() - record.started, 2), change])
    log.info("di-server changed the collectors by %+d", change)
    return True


def _farewell(book: Book) -> None:
    deadline = time.monotonic() + FAREWELL_SECONDS
    while not book.everyone_told() and time.monotonic() < deadline:
        time.sleep(0.1)
