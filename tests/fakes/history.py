"""A fake di-history over HTTP: one job that failed and was deleted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.fakes.web import Handler, serving

Object = dict[str, Any]
KEPT: Object = {
    "job": {
        "name": "cartpole",
        "owner": "kubectl-create",
        "phase": "Failed",
        "created": "2026-03-01T09:00:00.000Z",
        "deleted": "2026-03-01T11:30:00.000Z",
    },
    "timeline": [
        {
            "kind": "phase",
            "at": "2026-03-01T09:00:10.000Z",
            "phase": "Running",
            "before": "Starting",
            "message": "3 pods ready",
        },
        {
            "kind": "scaling",
            "at": "2026-03-01T09:10:00.000Z",
            "task": "collector",
            "before": 2,
            "after": 0,
            "who": "di-server",
        },
        {
            "kind": "failure",
            "at": "2026-03-01T11:18:58.000Z",
            "pod": "cartpole-learner-0",
            "uid": "p1",
            "exitCode": 137,
            "reason": "OOMKilled",
            "lastLines": "2026-03-01T11:18:57Z a\n2026-03-01T11:18:58Z MemoryError \x1b[31m",
        },
        {
            "kind": "gap",
            "at": "2026-03-01T11:25:00.000Z",
            "from": "2026-03-01T11:20:00.000Z",
            "changed": ["status.phase"],
        },
        {"kind": "deleted", "at": "2026-03-01T11:30:00.000Z", "after": "2026-03-01T11:29:00.000Z"},
    ],
    "revisions": [{"number": 1, "at": "2026-03-01T09:00:00.000Z", "who": "kubectl-create"}],
    "placements": [
        {
            "pod": "cartpole-learner-0",
            "task": "learner",
            "rank": 0,
            "node": "gpu-3",
            "since": "2026-03-01T09:00:00.000Z",
            "until": "2026-03-01T11:18:58.000Z",
            "outcome": "Failed",
            "reason": "OOMKilled",
        },
        {"pod": "cartpole-collector-0", "task": "collector", "rank": 1, "node": "gpu-3"},
    ],
    "logs": [
        {"pod": "cartpole-learner-0", "note": ""},
        {"pod": "cartpole-collector-0", "note": ""},
        {"pod": "cartpole-collector-1", "note": "gone"},
    ],
}
LOGS = {
    "cartpole-learner-0": "2026-03-01T11:18:57Z a\n2026-03-01T11:18:59Z c\n",
    "cartpole-collector-0": "2026-03-01T11:18:58Z b\n",
}


class Service:
    """A fake di-history."""

    def __init__(self) -> None:
        self.answers: dict[str, object] = {"/v1/jobs/rl/cartpole": KEPT}
        for pod, text in LOGS.items():
            self.answers[f"/v1/jobs/rl/cartpole/logs/{pod}"] = text
        self.asked: list[tuple[str, str | None]] = []
        self.status = 200
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        world = self

        class Keeping(Handler):
            def do_GET(self) -> None:
                world.asked.append((self.path, self.headers["Authorization"]))
                found = world.answers.get(urlsplit(self.path).path)
                is_there = found is not None or world.status == 503
                status = world.status if is_there else 404
                body = found if status == 200 else {"message": "refused: x"}
                raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.answer(status, raw)

        return Keeping


@contextmanager
def answering() -> Iterator[Service]:
    """One that answers until the end of the block."""
    found = Service()
    with serving(found.server):
        yield found
