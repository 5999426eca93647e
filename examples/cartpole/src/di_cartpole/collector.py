"""A collector: takes trials from the learner, plays them, brings the returns back."""

from __future__ import annotations

import threading
import time

import numpy as np

from di_cartpole.episodes import Episodes
from di_cartpole.wire import ask

SMOOTHING = 0.95
"""Weight of the past in the running share of waiting time."""


def run(url: str, rank: int, leaving: threading.Event) -> None:
    """Collect until the learner says that training is over, or until `leaving` is set.

    A collector that is given back first brings the trials it has: the learner would otherwise
    wait for them until their lease ends. Then it says that it goes, or it would be waited for at
    the end.

    Raises:
        Refused, Unreachable: as the learner answers, or has been silent for two minutes.
        Left: it did not answer, and `leaving` is set.
    """
    episodes = Episodes()
    idle = 0.0
    while not leaving.is_set():
        asked = time.monotonic()
        work = ask(f"{url}/work", {"rank": rank, "idle": idle}, leaving)
        if work.get("done"):
            return
        if "wait" in work:
            time.sleep(work["wait"])
            idle = SMOOTHING * idle + (1 - SMOOTHING)
            continue
        began = time.monotonic()
        weights = np.array(work["weights"])
        results = []
        for seed in work["seeds"]:
            plus, minus = episodes.run_pair(weights, seed=seed, sigma=work["sigma"])
            results.append((seed, plus.total_reward, minus.total_reward, plus.steps + minus.steps))
        ended = time.monotonic()
        idle = SMOOTHING * idle + (1 - SMOOTHING) * (began - asked) / (ended - asked)
        brought = {"generation": work["generation"], "results": results}
        ask(f"{url}/results", brought, leaving)
    ask(f"{url}/left", {"rank": rank}, leaving)
