"""The coordinator: asks for collectors, learns from their episodes, and gives them back."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping

import numpy as np

import di_orchestrator as di
from di_coordinated.fleet import Fleet
from di_coordinated.policy import Episode, Learner
from di_coordinated.scaling import FEW, Progress, wanted_collectors

log = logging.getLogger(__name__)

SOLVED = 475.0
"""Mean return at which CartPole-v1 counts as solved (its registered reward threshold)."""
NEWEST = 96
"""Episodes that the mean return is taken over."""
EPISODES = 16
"""Episodes of an update."""
MAX_UPDATES = 500
"""Training that has not solved the environment by then has failed."""
SYNC_SECONDS = 1.0
"""Shortest time between two looks at the list of collectors."""
PATIENCE_SECONDS = 180.0
"""Longest time without any episode; then there is no hope of collectors."""
MAX_SEED = 1 << 31


class NotSolved(Exception):
    """Training ended without having solved the environment; the message says why."""


class Coordinator:
    """One training, from the first request for collectors to the last."""

    def __init__(
        self,
        *,
        server: di.Coordinator,
        resources: Mapping[str, str],
        leaving: threading.Event,
        seed: int,
    ) -> None:
        self._server = server
        self._resources = resources
        self._leaving = leaving
        self._fleet = Fleet()
        self._learner = Learner(seed=seed)
        self._rng = np.random.default_rng(seed)
        self._started = self._synced = self._fed = time.monotonic()
        self._wanted = FEW
        self._returns: deque[float] = deque(maxlen=NEWEST)
        self._steps = 0

    def run(self) -> None:
        """Train until the mean return over the newest episodes reaches the threshold.

        Raises:
            NotSolved: it did not, or the pod was asked to leave first.
        """
        try:
            self._train()
        finally:
            self._fleet.dismiss()

    def _train(self) -> None:
        self._sync()
        waiting = 0.0
        for updates in range(MAX_UPDATES):
            began = time.monotonic()
            episodes = self._collect()
            collected = time.monotonic()
            self._learner.improve(episodes)
            self._note(episodes)
            spent = time.monotonic() - began
            waiting = 0.7 * waiting + 0.3 * (collected - began) / spent
            if len(self._returns) == NEWEST and self._mean >= SOLVED:
                log.info("solved: mean return %.1f over %d episodes", self._mean, NEWEST)
                self._wanted = 0
                self._sync()
                return
            self._wanted = wanted_collectors(
                Progress(
                    updates=updates,
                    waiting=waiting,
                    mean_return=self._mean,
                    wanted=self._wanted,
                )
            )
        raise NotSolved(f"mean return {self._mean:.1f} after {MAX_UPDATES} updates")

    @property
    def _mean(self) -> float:
        return sum(self._returns) / len(self._returns)

    def _collect(self) -> list[Episode]:
        self._fleet.order(
            self._learner.weights, self._rng.integers(MAX_SEED, size=EPISODES).tolist()
        )
        episodes: list[Episode] = []
        while len(episodes) < EPISODES:
            now = time.monotonic()
            if self._leaving.is_set():
                raise NotSolved("asked to leave before training was done")
            if now - self._fed > PATIENCE_SECONDS:
                raise NotSolved(f"no episode for {PATIENCE_SECONDS:.0f} s")
            if now - self._synced >= SYNC_SECONDS:
                self._sync()
            arrived = list(self._fleet.arrived(SYNC_SECONDS))
            if arrived:
                self._fed = time.monotonic()
            episodes += arrived
        return episodes

    def _sync(self) -> None:
        """Report who is lost, see who is there, and ask for what is missing.

        The next look repeats whatever di-server did not answer: it decides on the list of
        collectors, not on what was asked before.
        """
        self._synced = time.monotonic()
        try:
            lost = self._fleet.lost()
            if lost:
                replaced = self._server.replace(collectors=lost).collectors
                log.warning("lost %s; replaced by %s", lost, replaced)
            there = list(self._server.replicas().collectors)
            change = self._wanted - len(there)
            if change > 0:
                more = self._server.add(collectors=change, resources=self._resources)
                there += more.collectors
            elif change < 0:
                gone = self._server.drop(collectors=-change).collectors
                there = [address for address in there if address not in gone]
            if change:
                _say(scaling=[self._elapsed(), change])
            self._fleet.follow(there)
        except di.DIError as error:
            log.warning("%s", error)

    def _note(self, episodes: list[Episode]) -> None:
        returns = [episode.total_reward for episode in episodes]
        self._returns.extend(returns)
        self._steps += int(sum(returns))
        _say(curve=[self._elapsed(), self._steps, round(sum(returns) / len(returns), 1)])

    def _elapsed(self) -> float:
        return round(time.monotonic() - self._started, 2)


def _say(**point: list[float]) -> None:
    """A line for programs: a `curve` point [seconds, environment steps, mean return] or a
    `scaling` [seconds, change of the number of collectors]."""
    print(json.dumps(point), flush=True)
