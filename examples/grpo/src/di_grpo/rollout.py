"""A rollout engine: answers prompts with the newest weights, and brings what it is judged."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

import di_orchestrator as di
from di_grpo.engine import Engine, rewards_of
from di_grpo.model.problems import TRAINING, nth_training_problems, prompts
from di_grpo.samples import GROUP
from di_orchestrator.arrays import pack

log = logging.getLogger(__name__)

PROMPTS = 8
"""Prompts of a batch."""
EPOCHS = 1000
"""More than any training takes: it ends at its target."""


def run(job: di.Job, leaving: threading.Event, *, port: int) -> None:
    """Sample until training is over, or until it is asked to drain (or `leaving` is set) and what
    was begun is delivered.

    Args:
        port: where it is asked to drain, and whether it is ready.

    Raises:
        Unreachable: learner or judge have been silent for two minutes.
    """
    learner = f"http://{job.service('learner')}"
    with di.rollout(port, url=f"http://{job.address}:{port}") as here, suppress(di.Gone):
        batches = _sample(job, learner, here, lambda: leaving.is_set() or here.asked)
        di.call("POST", f"{learner}/left?who={job.pod}&batches={batches}")
        log.info("left after %d batches", batches)
        here.done()
        # Whoever asked it to drain says when to go.
        leaving.wait()


def _sample(job: di.Job, learner: str, here: di.Rollout, is_enough: Callable[[], bool]) -> int:
    """Return how many batches were begun and delivered.

    The engines share the problems: those of an engine that is gone are given to another one.
    """
    rng, engine = np.random.default_rng(), Engine(job)
    batches, load = 0, 0.0
    here.has(engine.version, load=load)
    with _problems() as shards:
        while not is_enough():
            shard = next(shards)
            problems = nth_training_problems(shard.records)
            batches += 1
            began = time.monotonic()
            asked = np.repeat(prompts(problems), GROUP, axis=0)
            samples = engine.sampler.sample(asked, rng)
            sampled = time.monotonic() - began
            batch = pack(
                version=engine.version,
                texts=samples.texts,
                rewards=rewards_of(samples.texts, job),
                log_probabilities=samples.log_probabilities,
            )
            di.call("POST", f"{learner}/samples?who={job.pod}&batch={batches}", batch)
            # Delivered: an engine that is asked to drain now leaves it to no other.
            shards.done(shard)
            engine.fetch()
            # The rest of its time it waits for judge and learner.
            load = round(sampled / (time.monotonic() - began), 2)
            here.has(engine.version, load=load)
    return batches


def _problems() -> di.Shards:
    return di.shards(
        "problems", size=TRAINING, shard_size=PROMPTS, epochs=EPOCHS, shuffle=True, by_hand=True
    )
