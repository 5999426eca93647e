"""Rolling out episodes of CartPole-v1."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium

from di_cartpole.policy import Weights, act, perturbation

ENVIRONMENT = "CartPole-v1"
SOLVED = 475.0
"""Mean return at which the environment counts as solved (its registered reward threshold)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One episode's sum of rewards and its length in environment steps."""

    total_reward: float
    steps: int


class Episodes:
    """One environment, used again for every episode."""

    def __init__(self) -> None:
        self._environment = gymnasium.make(ENVIRONMENT)

    def run(self, weights: Weights, *, seed: int) -> Rollout:
        """Play one episode with these weights; the same seed gives the same episode."""
        observation, _ = self._environment.reset(seed=seed)
        total, steps, ended = 0.0, 0, False
        while not ended:
            observation, reward, terminated, truncated, _ = self._environment.step(
                act(weights, observation)
            )
            total += float(reward)
            steps += 1
            ended = terminated or truncated
        return Rollout(total_reward=total, steps=steps)

    def run_pair(self, weights: Weights, *, seed: int, sigma: float) -> tuple[Rollout, Rollout]:
        """Play the two antithetic trials that a seed stands for, from the same start."""
        offset = sigma * perturbation(seed)
        return self.run(weights + offset, seed=seed), self.run(weights - offset, seed=seed)
