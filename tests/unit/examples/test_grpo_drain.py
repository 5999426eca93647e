"""An engine of the GRPO example that is not wanted any more brings what it has begun."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
from di_grpo import judge, rollout
from di_grpo.book import Book
from di_grpo.model.weights import initial_weights

import di_orchestrator as di
from di_api import names
from di_orchestrator import Asked, Reply, current_pod
from tests.ports import held_port


@pytest.mark.proves(
    "grpo.md#what-is-lost-when-something-dies/an-engine-that-is-scaled-away-evicted-or"
)
def test_a_draining_engine_sends_its_started_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, object]] = []
    problems, delivered = rollout._problems(), 0
    monkeypatch.setattr(rollout, "_problems", lambda: problems)

    def learner_says(asked: Asked) -> Reply:
        nonlocal delivered
        delivered += asked.path == "/samples"
        return book.answer(asked)

    monkeypatch.setattr(current_pod, "say", lambda url, **more: said.append({"url": url, **more}))
    book = Book(clock=time.monotonic)
    book.publish(0, initial_weights(np.random.default_rng(1)))
    leaving = threading.Event()
    with ExitStack() as stack:
        port = stack.enter_context(held_port())
        learner, judged = (
            stack.enter_context(di.Hub(answer, 0)) for answer in (learner_says, judge.answer)
        )
        job = di.Job.of(
            {
                names.ENV_JOB_ID: names.job_id("rl", "grpo"),
                names.ENV_RANK: "3",
                names.ENV_TASK_NAME: "rollout",
                names.ENV_TASK_RANK: "1",
                names.task_nodes_env("rollout"): "b,c",
                names.task_service_env("learner"): f"127.0.0.1:{learner.port}",
                names.task_service_env("judge"): f"127.0.0.1:{judged.port}",
            }
        )
        engine = threading.Thread(
            target=rollout.run, args=(job, leaving), kwargs={"port": port}, daemon=True
        )
        engine.start()
        assert book.take(1, seconds=60)
        di.call("GET", f"http://127.0.0.1:{port}/drain")
        assert book.left() == [0]
        # What it has delivered is done, so that no other engine gets it again.
        assert delivered > 0
        assert problems.progress[0] == delivered
        assert said[0] == {"url": f"http://c:{port}", "weightVersion": 0, "load": 0.0}
        # It ends when its pod leaves.
        assert engine.is_alive()
        leaving.set()
        engine.join(60)
        assert not engine.is_alive()
