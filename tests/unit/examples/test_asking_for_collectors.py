"""When the learner asks for collectors, and how it asks so that a request acts once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from di_cartpole import scaling
from di_cartpole.client import Unreachable
from di_cartpole.peers import Peers
from di_cartpole.scaling import (
    EXTRA,
    NEARLY_SOLVED,
    WAITING,
    WARM_UP_GENERATIONS,
    DIServer,
    Progress,
    wanted_change,
)


def progress(
    *,
    generation: int = WARM_UP_GENERATIONS,
    wait_fraction: float = WAITING,
    mean_return: float = 50.0,
    extra: int = 0,
) -> Progress:
    """A learner that waits too much and has measured for long enough."""
    return Progress(
        generation=generation, wait_fraction=wait_fraction, mean_return=mean_return, extra=extra
    )


@pytest.mark.parametrize(
    ("seen", "change"),
    [
        pytest.param(progress(), EXTRA, id="a learner that waits asks for more"),
        pytest.param(progress(generation=WARM_UP_GENERATIONS - 1), 0, id="not while warming up"),
        pytest.param(progress(wait_fraction=WAITING - 0.01), 0, id="not while it waits little"),
        pytest.param(progress(mean_return=NEARLY_SOLVED), 0, id="not when training nearly ends"),
        pytest.param(progress(extra=EXTRA), 0, id="not twice"),
        pytest.param(
            progress(extra=EXTRA, mean_return=NEARLY_SOLVED), -EXTRA, id="all are given back"
        ),
        pytest.param(
            progress(extra=EXTRA, mean_return=NEARLY_SOLVED, wait_fraction=1.0, generation=0),
            -EXTRA,
            id="given back even if it waits",
        ),
        pytest.param(
            progress(extra=EXTRA, mean_return=NEARLY_SOLVED - 1), 0, id="kept while needed"
        ),
    ],
)
def test_wanted_change(seen: Progress, change: int) -> None:
    assert wanted_change(seen) == change


class FakeServer:
    """Stands in for the HTTP call; fails as often as told, then answers."""

    def __init__(self) -> None:
        self.failures = 0
        self.trusted: set[str | None] = set()
        self.requests: list[tuple[str, str, Mapping[str, Any], Mapping[str, str]]] = []

    def __call__(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any],
        *,
        headers: Mapping[str, str],
        ca_file: str | None,
    ) -> dict[str, Any]:
        self.trusted.add(ca_file)
        self.requests.append((method, url, body, headers))
        if self.failures:
            self.failures -= 1
            raise Unreachable("nobody answers")
        return {"success": True}

    @property
    def keys(self) -> list[str]:
        return [headers["Idempotency-Key"] for *_, headers in self.requests]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    fake = FakeServer()
    monkeypatch.setattr(scaling, "call", fake)
    return fake


def client(*, token_file: str | None = None) -> DIServer:
    peers = Peers(
        rank=0,
        nodes=("a",),
        task_type="learner",
        learner="a",
        job_id="rl/cartpole",
        server_url="http://di-server",
        token_file=token_file,
        ca_file="/var/run/ca",
    )
    return DIServer(peers=peers, run="rl.cartpole-1")


def test_collectors_are_added_and_removed_by_the_contract(server: FakeServer) -> None:
    asking = client()
    assert asking.scale(2)
    assert asking.scale(-2)
    url = "http://di-server/v2alpha1/job/rl/cartpole/replicas"
    body = {"task": "collector", "replicas": 2}
    assert [request[:3] for request in server.requests] == [
        ("POST", url, body),
        ("DELETE", url, body),
    ]
    assert server.trusted == {"/var/run/ca"}


def test_a_lost_request_is_sent_again_under_the_same_key(server: FakeServer) -> None:
    server.failures = 2
    assert client().scale(2)
    assert len(server.keys) == 3
    assert len(set(server.keys)) == 1


def test_every_change_has_a_key_of_its_own(server: FakeServer) -> None:
    asking = client()
    asking.scale(2)
    asking.scale(-2)
    assert len(set(server.keys)) == 2


def test_a_server_that_stays_away_means_no_change(server: FakeServer) -> None:
    server.failures = 100
    assert not client().scale(2)
    assert len(server.requests) == 3


def test_a_lost_report_does_no_harm(server: FakeServer) -> None:
    server.failures = 1
    client().report({"envSteps": 7})
    ((method, url, body, _),) = server.requests
    assert (method, body) == ("POST", {"envSteps": 7})
    assert url == "http://di-server/v2alpha1/job/rl/cartpole/profilings"


def test_the_token_is_read_for_each_request(server: FakeServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    asking = client(token_file=str(token))
    for text in ("first", "renewed"):
        token.write_text(text)
        asking.report({})
    sent = [headers["Authorization"] for *_, headers in server.requests]
    assert sent == ["Bearer first", "Bearer renewed"]
