"""A di-server that is real but for the API server below it, and a pod's environment for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest
from werkzeug.serving import make_server

from di_api import names
from di_orchestrator import current_pod
from di_orchestrator.server.connect import say_once
from tests.ports import held_port
from tests.unit.server.fakes import Harness, job, make_harness, pod, watch


@pytest.fixture
def harness() -> Harness:
    """Two collectors and a learner of `rl/cartpole`, all of them running."""
    harness = make_harness(rate=1000, burst=1000)
    harness.add(job())
    harness.add_pods(
        pod("cartpole-learner-0", 0, "127.0.0.1", task="learner"),
        pod("cartpole-collector-0", 1, "10.0.0.2"),
        pod("cartpole-collector-1", 2, "10.0.0.3"),
    )
    watch(harness)
    return harness


@pytest.fixture
def url(harness: Harness) -> Iterator[str]:
    """Where the server answers."""
    yield from serving(harness)


def serving(harness: Harness) -> Iterator[str]:
    """Serve the application until it is asked for no more."""
    server = make_server("127.0.0.1", 0, harness.client.application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


LEARNER = {
    names.ENV_JOB_ID: names.job_id("rl", "cartpole"),
    names.ENV_RANK: "0",
    names.ENV_NODES: "learner-0,collector-0,collector-1",
    names.ENV_TASK_NAME: "learner",
    names.ENV_TASK_TYPE: "learner",
    names.ENV_TASK_RANK: "0",
    names.task_nodes_env("learner"): "learner-0",
    names.task_nodes_env("collector"): "collector-0,collector-1",
}


@pytest.fixture
def learner(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """The process is the learner's."""
    for name, value in {**LEARNER, names.ENV_SERVER_URL: url, "DI_TEST": "1"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fresh state of the package for each test."""
    mine = current_pod._CurrentPod()
    monkeypatch.setattr(current_pod, "_pod", mine)
    say_once.forget()
    monkeypatch.delenv("DI_TEST", raising=False)
    yield
    mine.close()


@pytest.fixture
def term() -> Iterator[None]:
    """SIGTERM is afterwards as it was."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    assert signal.getsignal(signal.SIGTERM) == before


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def group_port() -> Iterator[str]:
    """A port as that of a group's master, whose next one is free for its first process."""
    with held_port() as port:
        yield str(port - 1)
