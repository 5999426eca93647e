"""A rollout engine: answers prompts with the newest weights, and brings what it is judged."""

from __future__ import annotations

import threading

import numpy as np

from di_grpo.client import Over, ask_patiently
from di_grpo.engine import Engine
from di_grpo.judged import rewards_of
from di_grpo.messages import pack
from di_grpo.model.problems import prompts, training_problems
from di_grpo.peers import Peers
from di_grpo.samples import GROUP

PROMPTS = 8
"""Prompts of a batch."""


def run(peers: Peers, leaving: threading.Event) -> None:
    """Sample until training is over, or until `leaving` is set and what was begun is delivered.

    Raises:
        Unreachable: learner or judge have been silent for two minutes.
    """
    rng = np.random.default_rng()
    try:
        engine = Engine(peers)
        while not leaving.is_set():
            asked = np.repeat(prompts(training_problems(rng, PROMPTS)), GROUP, axis=0)
            samples = engine.sampler.sample(asked, rng)
            batch = pack(
                version=engine.version,
                texts=samples.texts,
                rewards=rewards_of(samples.texts, peers),
                log_probabilities=samples.log_probabilities,
            )
            ask_patiently("POST", f"{peers.learner_service}/samples", batch)
            engine.fetch()
    except Over:
        return
