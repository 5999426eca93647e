"""The client of di-history: its tokens, its connections, and the port-forward on its way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from di_cli.access.history import Route
from di_cli.access.kubeconfig import read_access
from di_dashboard.history.client import HistoryClient
from di_kube.sync import SyncKubeClient
from tests.fakes.api_server import StandIn
from tests.fakes.history import Service, answering
from tests.fakes.web import Handler, serving
from tests.waiting import ANSWER_SECONDS


@pytest.fixture
def service() -> Iterator[Service]:
    with answering() as found:
        found.answers["/v1/jobs"] = {"jobs": []}
        yield found


@pytest.mark.proves("dashboard.md#rights/what-the-history-has")
def test_the_token_of_an_account_is_reused(
    service: Service, world: StandIn, tmp_path: Path
) -> None:
    access = read_access(file=world.kubeconfig(tmp_path / "config"))
    client = SyncKubeClient(config=access.config, timeout=ANSWER_SECONDS, connections=1)
    asked = HistoryClient(access.config, client, server=service.url, account="viewer")
    with client, closing(asked):
        for namespace in ("rl", "rl", "other"):
            asked(namespace, "/jobs", {"namespace": namespace})
    tokens = [path for _, path, _ in world.requests if path.endswith("/token")]
    assert [path.split("/")[4] for path in tokens] == ["rl", "other"]
    assert {token for _, token in service.asked} == {"Bearer made"}


def test_a_port_forward_that_ended_is_replaced_before_a_request(
    service: Service, world: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []

    @contextmanager
    def reached(_server: str | None, *, context: str | None) -> Iterator[Route]:
        assert context is None
        number = len(opened)
        opened.append(True)
        yield Route(url=service.url, is_open=lambda: opened[number])

    monkeypatch.setattr("di_dashboard.history.client.reached", reached)
    access = read_access(file=world.kubeconfig(tmp_path / "config"))
    with SyncKubeClient(config=access.config, timeout=ANSWER_SECONDS, connections=1) as client:
        asked = HistoryClient(access.config, client)
        for ends in (False, True, False):
            asked("rl", "/jobs", {})
            opened[-1] = not ends
        asked.close()
    assert len(opened) == 2


def test_requests_share_a_connection_until_the_history_closes_it(
    world: StandIn, tmp_path: Path
) -> None:
    clients: list[int] = []

    class Closing(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            clients.append(self.client_address[1])
            if len(clients) == 3:
                self.close_connection = True
            else:
                self.answer(200, b"{}")

    access = read_access(file=world.kubeconfig(tmp_path / "config"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Closing)
    server.daemon_threads = True
    with (
        SyncKubeClient(config=access.config, timeout=ANSWER_SECONDS, connections=1) as client,
        serving(server) as address,
        closing(HistoryClient(access.config, client, server=f"http://{address}")) as asked,
    ):
        assert [asked("rl", "/jobs", {}) for _ in range(3)] == [b"{}"] * 3
    first, second, third, again = clients
    assert first == second == third != again
