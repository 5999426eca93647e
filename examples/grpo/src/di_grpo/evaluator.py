"""The evaluator: has the newest weights answer problems that nobody trains on."""

from __future__ import annotations

import json
import threading

import numpy as np

from di_grpo.client import Over, ask_patiently
from di_grpo.engine import Engine
from di_grpo.judged import rewards_of
from di_grpo.model.problems import held_out_problems, prompts
from di_grpo.peers import Peers

PROBLEMS = 500
PAUSE_SECONDS = 1.0
"""Between two evaluations, and before it is asked again whether there are other weights."""


def run(peers: Peers, leaving: threading.Event) -> None:
    """Evaluate the newest weights again and again until training is over, or `leaving` is set.

    Raises:
        Unreachable: learner or judge have been silent for two minutes.
    """
    rng = np.random.default_rng()
    asked = prompts(held_out_problems(PROBLEMS))
    try:
        engine, is_new = Engine(peers), True
        while not leaving.is_set():
            if is_new:
                texts = engine.sampler.sample(asked, rng).texts
                found = round(float(rewards_of(texts, peers).mean()), 4)
                body = json.dumps({"version": engine.version, "passAt1": found}).encode()
                ask_patiently("POST", f"{peers.learner_service}/evaluations", body)
            leaving.wait(PAUSE_SECONDS)
            is_new = engine.fetch()
    except Over:
        return
