"""A collector: plays with the newest weights, and brings what it saw and did."""

from __future__ import annotations

import logging
import threading
from typing import Any

import gymnasium
import numpy as np

import di_orchestrator as di
from di_impala.network import ACTOR, OBSERVATIONS, Weights, forward, log_chances
from di_impala.unrolls import STEPS
from di_orchestrator.arrays import pack, unpack

log = logging.getLogger(__name__)

ENVIRONMENT = "CartPole-v1"


class Player:
    """One environment, in which an unroll goes on where the one before it ended."""

    def __init__(self, *, seed: int | None = None) -> None:
        self._environment = gymnasium.make(ENVIRONMENT)
        self._rng = np.random.default_rng(seed)
        self._observation, _ = self._environment.reset(seed=int(self._rng.integers(1 << 30)))
        self._return = 0.0

    def play(self, weights: Weights) -> dict[str, Any]:
        """An unroll, as it travels, but for the version of the weights."""
        observations = np.zeros((STEPS + 1, OBSERVATIONS), np.float32)
        actions = np.zeros(STEPS, np.uint8)
        rewards, goes_on, chosen = (np.ones(STEPS, np.float32) for _ in range(3))
        returns = []
        for step in range(STEPS):
            observations[step] = self._observation
            chances = log_chances(forward(weights, ACTOR, observations[step])[1])
            below = np.cumsum(np.exp(chances))[:-1]
            action = int(np.searchsorted(below, self._rng.random()))
            self._observation, reward, terminated, truncated, _ = self._environment.step(action)
            actions[step], rewards[step], chosen[step] = action, float(reward), chances[action]
            self._return += float(reward)
            if terminated or truncated:
                goes_on[step] = 0
                returns.append(self._return)
                self._observation, _ = self._environment.reset()
                self._return = 0.0
        observations[STEPS] = self._observation
        return {
            "observations": observations,
            "actions": actions,
            "rewards": rewards,
            "goes_on": goes_on,
            "log_chances": chosen,
            "returns": np.array(returns, np.float32),
        }


def run(learner: str, name: str, leaving: threading.Event) -> None:
    """Collect until `leaving` is set, and what was begun is delivered.

    Args:
        learner: where the learner is reached.
        name: of this collector.

    Raises:
        Refused, Unreachable: as the learner answers, or does not.
    """
    player, mine = Player(), f"who={name}"
    version, weights = -1, Weights()
    try:
        news = di.call("GET", f"{learner}/weights?{mine}&have={version}", leaving=leaving)
        while not leaving.is_set():
            if news:
                weights = unpack(news)
                version = int(weights.pop("version"))
            unroll = pack(version=version, **player.play(weights))
            url = f"{learner}/unrolls?{mine}&have={version}"
            news = di.call("POST", url, unroll, leaving=leaving)
    except di.Left:
        log.info("left while the learner did not answer")
