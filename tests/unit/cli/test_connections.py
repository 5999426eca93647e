"""Connections that requests to di-history and MLflow share."""

from __future__ import annotations

import json
from http.server import ThreadingHTTPServer

import pytest

from di_cli.access.history import History
from di_cli.errors import CommandError
from di_cli.export.mlflow import MlflowServer
from tests.fakes.web import Handler, serving


class Keeping(Handler):
    """Keeps connections open, and records the client's port of each request."""

    protocol_version = "HTTP/1.1"
    ports: list[int]

    def do_GET(self) -> None:
        self.ports.append(self.client_address[1])
        if self.path.endswith("/none"):
            self.answer(404, b'{"message": "none"}')
        else:
            self.answer(200, json.dumps({"jobs": []}).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(Keeping, "ports", found, raising=False)
    return found


def test_requests_to_the_history_share_a_connection(ports: list[int]) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Keeping)
    server.daemon_threads = True
    with serving(server) as place:
        history = History(server=f"http://{place}", token="t", account="")
        with history.with_connections() as shared:
            shared.jobs("rl")
            with pytest.raises(CommandError):
                shared.json("rl", "none")
            shared.jobs("rl")
        assert (len(ports), len(set(ports))) == (3, 1)
        history.jobs("rl")
        history.jobs("rl")
    assert len(set(ports)) == 3


def test_requests_to_mlflow_share_a_connection(ports: list[int]) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Keeping)
    server.daemon_threads = True
    with serving(server) as place:
        mlflow = MlflowServer(f"http://{place}")
        for _ in range(3):
            mlflow._ask("POST", "runs/log-batch", {})
        mlflow.pool.clear()
    assert (len(ports), len(set(ports))) == (3, 1)
