"""The page over HTTP, with a fake API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from di_cli.access.kubeconfig import read_access
from di_dashboard.main import Serving, serving
from di_dashboard.session import HistoryPlace
from tests.fakes.api_server import StandIn
from tests.fakes.history import Service
from tests.unit.cli.conftest import JOBS, PODS, condition, job, node, pod, terminated
from tests.waiting import ANSWER_SECONDS


@dataclass(slots=True)
class Page:
    """A browser without scripts."""

    served: Serving
    session: requests.Session = field(default_factory=requests.Session)

    @property
    def root(self) -> str:
        split = urlsplit(self.served.url)
        return f"{split.scheme}://{split.netloc}"

    def enter(self) -> requests.Response:
        return self.session.get(self.served.url, timeout=60)

    def get(self, path: str, **options: object) -> requests.Response:
        return self.session.get(f"{self.root}{path}", timeout=60, **options)  # type: ignore[arg-type]

    def post(self, path: str, **fields: str) -> requests.Response:
        return self.session.post(f"{self.root}{path}", data=fields, timeout=60)


def fill(world: StandIn) -> None:
    """A job that runs on a node, one that failed, and one that waits."""
    world.put("/api/v1/nodes/gpu-1", node("gpu-1", 8))
    world.put(f"{JOBS}/grpo-7b", job("grpo-7b", "Running", restarts=0))
    for index, (task, rank) in enumerate((("learner", 0), ("collector", 1), ("collector", 2))):
        body = pod("grpo-7b", task, max(0, rank - 1), rank)
        name = body["metadata"]["name"]
        world.put(f"{PODS}/{name}", body)
        world.logs[name] = [f"2026-03-01T11:59:5{index}Z step {rank}"]
    message = "container di-container was OOM-killed; cartpole-learner-0 failed first"
    failed = [condition("Failed", "OOMLimit", message, at="11:19:00")]
    world.put(f"{JOBS}/cartpole", job("cartpole", "Failed", conditions=failed, restarts=3))
    body = pod("cartpole", "learner", 0, 0, **terminated(137, "OOMKilled", "11:18:58"))
    world.put(f"{PODS}/cartpole-learner-0", body)
    world.logs["cartpole-learner-0"] = ["2026-03-01T11:18:58Z MemoryError"]
    waits = [condition("Pending", "QuotaExceeded", "quota team is full", at="11:19:00")]
    world.put(f"{JOBS}/half", job("half", "Pending", conditions=waits, restarts=0))


@pytest.fixture(scope="session")
def _server() -> Iterator[StandIn]:
    with StandIn() as world:
        yield world


@pytest.fixture
def world(_server: StandIn, tmp_path: Path) -> Iterator[StandIn]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        fill(_server)
        yield _server
    time.tzset()
    with _server.changed:
        _server.objects.clear()
        _server.refusals.clear()
        _server.logs.clear()
        _server.requests.clear()


@pytest.fixture
def page(world: StandIn, tmp_path: Path) -> Iterator[Page]:
    yield from opened(world, tmp_path)


@pytest.fixture
def reader(world: StandIn, tmp_path: Path) -> Iterator[Page]:
    """A page that only reads."""
    yield from opened(world, tmp_path, read_only=True)


def opened(world: StandIn, folder: Path, *, read_only: bool = False) -> Iterator[Page]:
    access = read_access(file=world.kubeconfig(folder / "config"))
    with serving(access, namespace="rl", read_only=read_only) as served:
        assert served.cluster_cache.wait_until_complete(ANSWER_SECONDS)
        found = Page(served)
        with found.session:
            yield found


@pytest.fixture
def asking(world: StandIn, service: Service, tmp_path: Path) -> Iterator[Page]:
    """A page that asks the history, which is the `service` of the test's module.

    It waits for each answer: on a busy machine it would say instead that there is none yet.
    """
    access = read_access(file=world.kubeconfig(tmp_path / "config"))
    place = HistoryPlace(server=service.url, patience=ANSWER_SECONDS)
    with serving(access, namespace="rl", history=place) as served:
        assert served.cluster_cache.wait_until_complete(ANSWER_SECONDS)
        found = Page(served)
        with found.session:
            found.enter()
            yield found
