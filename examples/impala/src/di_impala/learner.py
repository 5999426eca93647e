"""The learner: improves the weights by unrolls, and scales the collectors that bring them."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

import di_orchestrator as di
from di_impala.book import Book
from di_impala.improve import Adam, aims, gradient
from di_impala.network import first_weights
from di_impala.unrolls import STEPS, Batch, Unroll

log = logging.getLogger(__name__)

UNROLLS = 8
"""Of a batch."""
RATE = 5e-3
LOOK_SECONDS = 1.0
"""From one point of the curve, and report of it, to the next."""
PATIENCE_SECONDS = 5.0
"""How long to wait for unrolls before saying so in the log."""
POINTS = 200
"""Of the curve in a report; with more it might not fit into a job's status."""


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


def run(settings: Settings, *, port: int) -> None:
    """Train until the mean return of the last episodes reaches the target.

    Raises:
        NotLearned: it did not within the steps allowed.
        Interrupted: the pod was asked to leave first.
    """
    book = Book(clock=time.monotonic)
    # How many steps there will be: who ends at a target does not know.
    with di.Hub(book.answer, port, public=["/ready"]), di.training(target=settings.target) as here:
        Training(settings, book, here).run()


class Training:
    """A training, and what was measured of it.

    Attributes:
        curve: [seconds, environment steps, mean return].
        scaling: [seconds, change of the number of collectors] for each change.
    """

    def __init__(self, settings: Settings, book: Book, here: di.Training) -> None:
        self._settings, self._book, self._here = settings, book, here
        self._weights, self._adam = first_weights(settings.seed), Adam(RATE)
        self._version = 0
        self._began = self._looked = time.monotonic()
        self._lag = 0.0
        self.curve: list[list[float]] = []
        self.scaling: list[list[float]] = []
        book.publish(self._version, self._weights)

    def run(self) -> None:
        """Train to the end; see `run`."""
        while (found := self._book.mean_return()) < self._settings.target:
            if self._version >= self._settings.most_steps:
                raise NotLearned(f"mean return {found:.1f} after {self._version} steps")
            unrolls = self._unrolls()
            dropped = self._book.dropped()
            with self._here.iteration(samples=len(unrolls) * STEPS, stale=dropped * STEPS):
                self._improve(unrolls)
            if time.monotonic() - self._looked >= LOOK_SECONDS:
                self._look()
            self._scale()
        self._look()
        log.info("learned: mean return %.1f, version %d", found, self._version)

    def _unrolls(self) -> list[Unroll]:
        while True:
            if self._here.stopping:
                raise Interrupted("asked to leave before training was done")
            if unrolls := self._book.take(UNROLLS, seconds=PATIENCE_SECONDS):
                return unrolls
            log.info("version %d: %d collectors present", self._version, self._book.collectors())

    def _improve(self, unrolls: list[Unroll]) -> None:
        self._lag = sum(self._version - unroll.version for unroll in unrolls) / len(unrolls)
        batch = Batch.of(unrolls)
        slopes = gradient(self._weights, batch, aims(self._weights, batch))
        self._weights = self._adam.step(self._weights, slopes)
        self._version += 1
        self._book.publish(self._version, self._weights)

    def _look(self) -> None:
        self._looked = now = time.monotonic()
        found, collectors = self._book.mean_return(), self._book.collectors()
        self.curve.append([round(now - self._began, 2), self._book.env_steps, round(found, 1)])
        log.info(
            "version %d: mean return %.1f, %d environment steps, %d collectors, %.1f behind",
            *(self._version, found, self._book.env_steps, collectors, self._lag),
        )
        self._here.report(self._version, collectors=collectors, **self.profilings())

    def profilings(self) -> dict[str, Any]:
        """What only this program knows; the curve is thinned to the points that fit."""
        stride = -(-len(self.curve) // POINTS) or 1
        return {
            "env_steps": self._book.env_steps,
            "policy_lag": round(self._lag, 2),
            "curve": self.curve[:-1:stride] + self.curve[-1:],
            "scaling": self.scaling,
        }

    def _scale(self) -> None:
        before = self._here.collectors or 0
        if (there := self._here.rescale()) is not None:
            self.scaling.append([round(time.monotonic() - self._began, 2), there - before])
            log.info("collectors: %d -> %d", before, there)
