"""A collector: plays episodes with the weights it is given, for whoever asks over HTTP."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from di_coordinated.episodes import Episodes
from di_coordinated.policy import SIZE, Episode

MAX_BODY = 1 << 20
MAX_EPISODES = 64
"""Most episodes of one request."""

Play = Callable[[Mapping[str, Any]], dict[str, Any]]


class _Server(ThreadingHTTPServer):
    """Listens on IPv4 and IPv6: a cluster may have pods of either."""

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def run(*, port: int, leaving: threading.Event) -> None:
    """Answer until `leaving` is set."""
    server = _Server(("", port), handler(player(Episodes())))
    threading.Thread(target=server.serve_forever, daemon=True, name="http").start()
    leaving.wait()
    server.shutdown()
    server.server_close()


def player(episodes: Episodes) -> Play:
    """What answers a request for episodes, one at a time: there is one environment.

    A request has the policy's `weights` and a seed for each episode in `seeds`; anything else
    raises LookupError, TypeError or ValueError.
    """
    playing = threading.Lock()

    def play(request: Mapping[str, Any]) -> dict[str, Any]:
        weights = np.array(request["weights"], dtype=float)
        seeds = [int(seed) for seed in request["seeds"]]
        if weights.shape != (SIZE,) or len(seeds) > MAX_EPISODES:
            raise ValueError(f"{SIZE} weights and at most {MAX_EPISODES} seeds are expected")
        with playing:
            return {"episodes": [_dump(episodes.play(weights, seed=seed)) for seed in seeds]}

    return play


def _dump(episode: Episode) -> dict[str, Any]:
    return {
        "observations": episode.observations.tolist(),
        "actions": episode.actions.tolist(),
    }


def handler(play: Play) -> type[BaseHTTPRequestHandler]:
    """Answers POST with episodes, and GET with an empty object: it is here."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise the body, which is sent after the head, would wait up to 40 ms.
        disable_nagle_algorithm = True
        timeout = 30

        def do_GET(self) -> None:
            self._answer(200, {})

        def do_POST(self) -> None:
            length = min(int(self.headers.get("Content-Length") or 0), MAX_BODY)
            try:
                self._answer(200, play(json.loads(self.rfile.read(length))))
            except (LookupError, TypeError, ValueError) as error:
                self._answer(400, {"error": str(error)})

        def _answer(self, code: int, body: Mapping[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            """Say nothing: a line for every request would bury what matters."""

    return Handler
