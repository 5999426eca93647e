"""A plain Ray program: the cross-entropy method on CartPole-v1, played by all nodes."""

from __future__ import annotations

import os
from typing import Any

import gymnasium
import numpy as np
import ray

EPISODES, BEST = 32, 8
"""Of a round, and of these the ones that the next round is drawn from."""


def play(policy: Any, seed: int) -> tuple[float, str]:
    """The return of an episode with a linear policy, and the node that played it."""
    environment = gymnasium.make("CartPole-v1")
    observation, _ = environment.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        action = int(policy @ observation > 0)
        observation, reward, terminated, truncated, _ = environment.step(action)
        total, ended = total + float(reward), terminated or truncated
    return total, ray.get_runtime_context().get_node_id()


def main() -> None:
    """Search for as many rounds as asked, and say what was found."""
    ray.init(address="auto")
    anywhere = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(play)
    rng = np.random.default_rng(1)
    mean, spread, best = np.zeros(4), np.ones(4), 0.0
    for number in range(int(os.environ["ROUNDS"])):
        policies = mean + spread * rng.standard_normal((EPISODES, mean.size))
        played = ray.get([anywhere.remote(policy, number) for policy in policies])
        returns = np.array([found for found, _ in played])
        elite = policies[returns.argsort()[-BEST:]]
        mean, spread, best = elite.mean(0), elite.std(0) + 0.01, max(best, returns.mean())
        nodes = len({node for _, node in played})
        print(f"round {number}: mean return {returns.mean():.0f}, played by {nodes} nodes")
    print(f"result: best mean return {best:.0f}")


if __name__ == "__main__":
    main()
