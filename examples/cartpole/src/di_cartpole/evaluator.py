"""The evaluator: plays the newest policy on episodes of its own and reports the mean return."""

from __future__ import annotations

import threading
import time

import numpy as np

from di_cartpole.episodes import Episodes
from di_cartpole.wire import ask

EPISODES = 20
FIRST_SEED = 1_000_000_000
"""Evaluation seeds start here, beyond those the learner draws: no episode is trained on."""
POLL_SECONDS = 0.2


def run(url: str, rank: int, leaving: threading.Event) -> None:
    """Evaluate each new policy until the learner says that training is over, or `leaving` is set.

    Raises:
        Refused, Unreachable: as the learner answers, or has been silent for two minutes.
        Left: it did not answer, and `leaving` is set.
    """
    episodes = Episodes()
    evaluated = -1
    while not leaving.is_set():
        policy = ask(f"{url}/policy", {"rank": rank}, leaving)
        if policy["done"]:
            return
        if policy.get("generation", -1) <= evaluated:
            time.sleep(POLL_SECONDS)
            continue
        evaluated = policy["generation"]
        weights = np.array(policy["weights"])
        first = FIRST_SEED + evaluated * EPISODES
        returns = [
            episodes.run(weights, seed=seed).total_reward for seed in range(first, first + EPISODES)
        ]
        ask(
            f"{url}/evaluations",
            {
                "generation": evaluated,
                "meanReturn": sum(returns) / EPISODES,
                "weights": policy["weights"],
            },
            leaving,
        )
