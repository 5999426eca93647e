"""A rollout engine: answers prompts with the newest weights, and brings what it is judged."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from di_grpo.client import Over, ask_patiently
from di_grpo.di_server import HEARTBEAT_SECONDS, DIServer
from di_grpo.drain import Drain
from di_grpo.engine import Engine
from di_grpo.hub import serve
from di_grpo.judged import rewards_of
from di_grpo.messages import pack
from di_grpo.model.problems import prompts, training_problems
from di_grpo.peers import PORT, Peers
from di_grpo.reports import Reports
from di_grpo.samples import GROUP

log = logging.getLogger(__name__)

PROMPTS = 8
"""Prompts of a batch."""


def run(peers: Peers, leaving: threading.Event) -> None:
    """Sample until training is over, or until it is asked to drain (or `leaving` is set) and what
    was begun is delivered.

    Raises:
        Unreachable: learner or judge have been silent for two minutes.
    """
    drain = Drain()
    hub = serve(drain.answer, port=PORT)
    try:
        batches = _sample(peers, lambda: leaving.is_set() or drain.is_asked)
        ask_patiently("POST", f"{peers.learner_service}/left?who={peers.pod}&batches={batches}")
        log.info("left after %d batches", batches)
        drain.finish()
        # Whoever asked it to drain says when to go.
        leaving.wait()
    except Over:
        return
    finally:
        drain.finish()
        hub.shutdown()


def _sample(peers: Peers, is_enough: Callable[[], bool]) -> int:
    """How many batches were begun, and delivered."""
    rng = np.random.default_rng()
    server = DIServer(peers=peers, run=peers.pod)
    board = Reports(partial(server.say, peers.pod), repeat_seconds=HEARTBEAT_SECONDS)
    batches, load = 0, 0.0
    engine = Engine(peers)
    while not is_enough():
        board.tell({"url": peers.url, "weightVersion": engine.version, "load": load})
        batches += 1
        began = time.monotonic()
        asked = np.repeat(prompts(training_problems(rng, PROMPTS)), GROUP, axis=0)
        samples = engine.sampler.sample(asked, rng)
        sampled = time.monotonic() - began
        batch = pack(
            version=engine.version,
            texts=samples.texts,
            rewards=rewards_of(samples.texts, peers),
            log_probabilities=samples.log_probabilities,
        )
        url = f"{peers.learner_service}/samples?who={peers.pod}&batch={batches}"
        ask_patiently("POST", url, batch)
        engine.fetch()
        # The rest of its time it waits for judge and learner.
        load = round(sampled / (time.monotonic() - began), 2)
    return batches
