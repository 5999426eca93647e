"""Rolling out episodes of CartPole-v1."""

from __future__ import annotations

import gymnasium
import numpy as np

from di_coordinated.policy import Episode, Floats, probabilities

ENVIRONMENT = "CartPole-v1"


class Episodes:
    """One environment, used again for every episode."""

    def __init__(self) -> None:
        self._environment = gymnasium.make(ENVIRONMENT)

    def play(self, weights: Floats, *, seed: int) -> Episode:
        """Play one episode, actions drawn by their probability; a seed always gives the same."""
        rng = np.random.default_rng(seed)
        observation, _ = self._environment.reset(seed=seed)
        observations, actions, ended = [], [], False
        while not ended:
            chances = probabilities(weights, observation)
            action = int(rng.random() < chances[1])
            observations.append(observation)
            actions.append(action)
            observation, _, terminated, truncated, _ = self._environment.step(action)
            ended = terminated or truncated
        return Episode(observations=np.array(observations, dtype=float), actions=np.array(actions))
