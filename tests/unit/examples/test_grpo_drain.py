"""An engine of the GRPO example that is not wanted any more brings what it has begun."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer

import numpy as np
import pytest
from di_grpo import judge, rollout
from di_grpo.book import Book
from di_grpo.client import Answer, ask
from di_grpo.hub import Request, serve
from di_grpo.model.weights import initial_weights
from di_grpo.peers import Peers


@pytest.fixture
def hubs() -> Iterator[list[ThreadingHTTPServer]]:
    """Those of learner, judge and, once it runs, of the engine."""
    served: list[ThreadingHTTPServer] = []
    yield served
    for hub in served:
        hub.shutdown()
        hub.server_close()


def test_it_brings_what_it_has_begun_and_says_so(
    hubs: list[ThreadingHTTPServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def anywhere(answer: Callable[[Request], Answer], *, port: int) -> ThreadingHTTPServer:
        hubs.append(serve(answer, port=0))
        return hubs[-1]

    monkeypatch.setattr(rollout, "serve", anywhere)
    book = Book(clock=time.monotonic)
    book.publish(0, initial_weights(np.random.default_rng(1)))
    hubs += [serve(book.answer, port=0), serve(judge.answer, port=0)]
    learner, judged = (f"http://127.0.0.1:{hub.server_port}" for hub in hubs)
    peers = Peers(
        task="rollout",
        index=1,
        pod="grpo-rollout-1",
        url="http://c:22270",
        learners=("a",),
        engines=2,
        learner_service=learner,
        judge_service=judged,
        job_id="rl/grpo",
        server_url="http://127.0.0.1:1",
        token_file=None,
        ca_file=None,
    )
    leaving = threading.Event()
    engine = threading.Thread(target=rollout.run, args=(peers, leaving), daemon=True)
    engine.start()
    assert book.take(1, seconds=60)
    ask("GET", f"http://127.0.0.1:{hubs[-1].server_port}/drain")
    assert book.left() == [0]
    # It goes when it is told to.
    assert engine.is_alive()
    leaving.set()
    engine.join(60)
    assert not engine.is_alive()
