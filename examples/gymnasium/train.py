"""A Gymnasium loop: a linear policy for CartPole-v1, found by random search."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

import di_orchestrator as di
from di_orchestrator import hooks

ENV_STEPS, SOLVED = 100_000, 475.0


def main() -> None:
    """Search until one episode is good enough."""
    rng = np.random.default_rng(1)
    best, best_return = rng.normal(size=4), 0.0
    with di.training(max_env_steps=ENV_STEPS) as run:
        env = hooks.gymnasium(gymnasium.make("CartPole-v1"), run)
        while env.steps < ENV_STEPS and best_return < SOLVED and not run.stopping:
            policy = best + rng.normal(size=4)
            if (found := play(env, policy, seed=int(rng.integers(1 << 31)))) > best_return:
                best, best_return = policy, found
    print(f"return {best_return:.0f} after {env.steps} steps of the environment", flush=True)


def play(env: Any, policy: Any, seed: int) -> float:
    """The return of one episode."""
    observation, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(int(policy @ observation > 0))
        total, ended = total + float(reward), terminated or truncated
    return total


if __name__ == "__main__":
    main()
