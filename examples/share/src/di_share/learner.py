"""A learner: in each world it takes over the furthest state, and trains until there is another."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from random import Random

import di_orchestrator as di
from di_share.meeting import Place
from di_share.policy import Part, Weights, blank, improved, mean_reward, play, share

log = logging.getLogger(__name__)

STATES = 0
"""The number of a world's first meeting."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is trained, and how long its environment takes."""

    steps: int
    batch: int
    sample_seconds: float
    """Of the environment, for each sample: a simulator that runs elsewhere."""


@dataclass(slots=True)
class Learner:
    """One member of the group; all of them have the same state after each step."""

    settings: Settings
    run: di.Training
    random: Random
    step: int = 0
    weights: Weights | None = None

    @property
    def is_done(self) -> bool:
        """Whether all steps are made."""
        return self.step >= self.settings.steps

    def train(self, place: Place, *, rank: int, size: int) -> None:
        """Train in one world, to the end or until the pod is to leave.

        Raises:
            WorldOverError: there will be another world before that.
        """
        began = time.monotonic()
        self._take_over(place)
        self.run.report(self.step, learners=size)
        mine = share(self.settings.batch, size, rank)
        number, waited = STATES, time.monotonic() - began
        while not self.is_done:
            if self.run.stopping:
                return
            number += 1
            begun = time.monotonic()
            with self.run.iteration(samples=mine):
                part = self._play(mine)
                played = time.monotonic()
                with self.run.synchronizing():
                    parts = [Part(**each) for each in place.meet(number, asdict(part))]
            self.weights = improved(self.weights or blank(), parts)
            self.step += 1
            now = time.monotonic()
            # Of this step, smoothed: who plays less than others, or after a change, waits longer.
            waited = 0.8 * waited + 0.2 * (now - played) / (now - begun)
            reward = round(mean_reward(parts), 3)
            self.run.report(self.step, reward=reward, learner_wait_frac=min(round(waited, 3), 1.0))
        place.leave(number + 1)

    def _take_over(self, place: Place) -> None:
        states = place.meet(STATES, {"step": self.step, "weights": self.weights or blank()})
        furthest = max(states, key=lambda state: int(state["step"]))
        self.step, self.weights = int(furthest["step"]), list(furthest["weights"])
        log.info("a world of %d goes on from step %d", len(states), self.step)

    def _play(self, samples: int) -> Part:
        begun = time.monotonic()
        part = play(self.weights or blank(), samples, self.random)
        left = samples * self.settings.sample_seconds - (time.monotonic() - begun)
        time.sleep(max(0.0, left))
        return part
