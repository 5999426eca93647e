"""The coordinator asks for collectors, does without those that are lost, and gives all back."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
from di_coordinated import coordinator, fleet, health
from di_coordinated.client import Unreachable
from di_coordinated.coordinator import Coordinator, NotSolved
from di_coordinated.scaling import (
    FEW,
    MANY,
    NEARLY_SOLVED,
    WAITING,
    WARM_UP_UPDATES,
    Progress,
    wanted_collectors,
)

import di_orchestrator as di
from di_orchestrator.server.exchange import Answer, Patience, Request, Silence


class Train(Protocol):
    def __call__(self, cluster: FakeCluster, leaving: threading.Event | None = None) -> None: ...


def progress(
    *,
    updates: int = WARM_UP_UPDATES,
    waiting: float = WAITING,
    mean_return: float = 50.0,
    wanted: int = FEW,
) -> Progress:
    """A coordinator that waits too much and has measured for long enough."""
    return Progress(updates=updates, waiting=waiting, mean_return=mean_return, wanted=wanted)


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        pytest.param(progress(), MANY, id="one that waits wants more"),
        pytest.param(progress(updates=WARM_UP_UPDATES - 1), FEW, id="not while warming up"),
        pytest.param(progress(waiting=WAITING - 0.01), FEW, id="not while it waits little"),
        pytest.param(progress(waiting=0.0, wanted=MANY), MANY, id="it does not change its mind"),
        pytest.param(progress(mean_return=NEARLY_SOLVED, wanted=MANY), FEW, id="until the end"),
    ],
)
def test_the_coordinator_wants_collectors(seen: Progress, wanted: int) -> None:
    assert wanted_collectors(seen) == wanted


def test_a_new_collector_may_be_silent_for_longer() -> None:
    new = health.Health(100.0)
    assert not new.missed(100.0 + health.STARTING_SECONDS - 1)
    assert new.missed(100.0 + health.STARTING_SECONDS)
    known = health.Health(100.0)
    known.answered()
    assert not known.missed(200.0)
    assert not known.missed(200.0 + health.SILENT_SECONDS - 1)
    assert known.missed(200.0 + health.SILENT_SECONDS)


class FakeCluster:
    """di-server and its collectors, in place of HTTP. Episodes are of the `lengths` in turn."""

    def __init__(self, lengths: list[int]) -> None:
        self.there: list[str] = []
        self.asked: list[tuple[str, Any]] = []
        self.dead: set[str] = set()
        self.outages = 0
        self.dies_in_mid_work = ""
        self._lengths = lengths
        self._played = 0
        self._made = 0
        self._lock = threading.Lock()

    def di_server(self, request: Request) -> Answer | Silence:
        with self._lock:
            if self.outages:
                self.outages -= 1
                return Silence("di-server is away")
            who = request.body or request.query
            assert (who["namespace"], who["coordinator"]) == ("rl", "x-coordinator")
            if request.body is None:
                return self._answer(self.there)
            wanted = request.body["collectors"]
            self.asked.append((f"{request.method} {request.path}", wanted))
            if request.path.endswith("/failed"):
                at = [address.partition(".")[0] for address in self.there].index(wanted[0])
                self.there[at] = self._new()
                return self._answer([self.there[at]])
            if request.method == "POST":
                made = [self._new() for _ in range(wanted["replicas"])]
                self.there += made
                return self._answer(made)
            left = len(self.there) - wanted["replicas"]
            gone, self.there = self.there[left:], self.there[:left]
            return self._answer(gone)

    def collector(
        self, method: str, url: str, body: Mapping[str, Any] | None = None, *, seconds: float = 0
    ) -> dict[str, Any]:
        address = urlsplit(url).netloc
        with self._lock:
            if body is not None and self.dies_in_mid_work == address:
                self.dead.add(address)
            if address in self.dead or address not in self.there:
                raise Unreachable(f"{address} is away")
            if body is None:
                return {}
            lengths = [self._next_length() for _ in body["seeds"]]
        return {
            "episodes": [
                {"observations": [[0.0, 0.1, 0.2, 0.3]] * length, "actions": [0] * length}
                for length in lengths
            ]
        }

    def _next_length(self) -> int:
        self._played += 1
        return self._lengths[min(self._played, len(self._lengths)) - 1]

    def _new(self) -> str:
        self._made += 1
        return f"x-collector-{self._made}.rl:22270"

    @staticmethod
    def _answer(addresses: list[str]) -> Answer:
        data = {"collectors": list(addresses), "learners": []}
        return Answer(200, json.dumps({"data": data}).encode())


def solved_after(episodes: int) -> FakeCluster:
    return FakeCluster([10] * episodes + [500])


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "SYNC_SECONDS", 0.01)
    monkeypatch.setattr(fleet, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(health, "SILENT_SECONDS", 0.05)


@pytest.fixture(name="train")
def _train(monkeypatch: pytest.MonkeyPatch) -> Train:
    def train(cluster: FakeCluster, leaving: threading.Event | None = None) -> None:
        monkeypatch.setattr(fleet, "call", cluster.collector)
        server = di.Coordinator(
            cluster.di_server, namespace="rl", pod="x-coordinator", patience=Patience(0)
        )
        Coordinator(
            server=server, resources={"cpus": "200m"}, leaving=leaving or threading.Event(), seed=1
        ).run()

    return train


def said(capsys: pytest.CaptureFixture[str], what: str) -> list[list[float]]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line[what] for line in lines if what in line]


def test_the_coordinator_adds_collectors_and_removes_all(
    train: Train, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = solved_after(coordinator.EPISODES)
    train(cluster)
    first, last = cluster.asked[0], cluster.asked[-1]
    assert first == ("POST /v1alpha1/replicas", {"replicas": FEW, "cpus": "200m"})
    assert last[0] == "DELETE /v1alpha1/replicas"
    assert cluster.there == []
    points = said(capsys, "curve")
    assert points[0][2] == 10
    assert points[-1][2] == 500


def test_a_lost_collector_is_replaced(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = solved_after(8 * coordinator.EPISODES)
    cluster.dies_in_mid_work = "x-collector-1.rl:22270"
    # Until the lost one is replaced, there is no other collector.
    cluster.dead.add("x-collector-2.rl:22270")
    monkeypatch.setattr(health, "STARTING_SECONDS", 0.05)
    train(cluster)
    reported = [wanted for what, wanted in cluster.asked if what.endswith("/failed")]
    names = {name for wanted in reported for name in wanted}
    assert {"x-collector-1", "x-collector-2"} <= names


@pytest.mark.proves("operations.md#availability/all-of-the-server")
def test_training_without_progress_fails(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "MAX_UPDATES", 3)
    with pytest.raises(NotSolved, match=r"mean return 10\.0 after 3 updates"):
        train(FakeCluster([10]))
