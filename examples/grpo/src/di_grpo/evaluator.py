"""The evaluator: has the newest weights answer problems that nobody trains on."""

from __future__ import annotations

import json
import threading

import numpy as np

import di_orchestrator as di
from di_grpo.engine import Engine, rewards_of
from di_grpo.model.problems import held_out_problems, prompts

PROBLEMS = 500
PAUSE_SECONDS = 1.0
"""Between two evaluations, and before it is asked again whether there are other weights."""


def run(job: di.Job, leaving: threading.Event) -> None:
    """Evaluate the newest weights again and again until training is over, or `leaving` is set.

    Raises:
        Unreachable: learner or judge have been silent for two minutes.
    """
    rng = np.random.default_rng()
    asked = prompts(held_out_problems(PROBLEMS))
    try:
        engine, is_new = Engine(job), True
        while not leaving.is_set():
            if is_new:
                texts = engine.sampler.sample(asked, rng).texts
                found = round(float(rewards_of(texts, job).mean()), 4)
                body = json.dumps({"version": engine.version, "passAt1": found}).encode()
                di.call("POST", f"http://{job.service('learner')}/evaluations", body)
            leaving.wait(PAUSE_SECONDS)
            is_new = engine.fetch()
    except di.Gone:
        return
