"""The evaluator: plays the newest policy on episodes of its own and reports the mean return."""

from __future__ import annotations

import threading
import time

import numpy as np

from di_cartpole.episodes import SOLVED, Episodes
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
    evaluated, is_solved = -1, False
    while not leaving.is_set():
        policy = ask(f"{url}/policy", {"rank": rank}, leaving)
        if policy["done"]:
            return
        newest = policy.get("generation", -1)
        if is_solved:
            # The learner ends with this generation: nobody is to wait until that one is evaluated.
            # A learner that was lost meanwhile goes on, and then there are later ones.
            evaluated, is_solved = newest + 1, False
        if newest <= evaluated:
            time.sleep(POLL_SECONDS)
            continue
        evaluated = newest
        weights = np.array(policy["weights"])
        first = FIRST_SEED + evaluated * EPISODES
        returns = [
            episodes.run(weights, seed=seed).total_reward for seed in range(first, first + EPISODES)
        ]
        mean = sum(returns) / EPISODES
        is_solved = mean >= SOLVED
        found = {"generation": evaluated, "meanReturn": mean, "weights": policy["weights"]}
        ask(f"{url}/evaluations", found, leaving)
