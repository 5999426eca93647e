"""Engines say which weights they have, whether they take work, and when they have finished."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from typing_extensions import override

import di_orchestrator as di
from di_api import names
from di_orchestrator import rollout_server
from di_orchestrator.rollout_server import (
    NOT_UP_SECONDS,
    QUIET_SECONDS,
    SILENT_SECONDS,
    TELL_SECONDS,
    Finishing,
    Watcher,
    Weights,
    places_of,
    serve,
)
from di_orchestrator.rollouts import inference
from di_orchestrator.rollouts.engine import Rollout
from di_orchestrator.rollouts.inference import Seen, in_hand, look, weight_version
from di_orchestrator.server.connect import connection
from tests.ports import held_ports
from tests.programs import Program
from tests.unit.sdk.conftest import LEARNER, Clock, serving
from tests.unit.server.fakes import Harness
from tests.waiting import wait_until

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a {b} c"} 3.0
vllm:num_requests_running{engine="1",model_name="a {b} c"} 1.0
vllm:num_requests_waiting{engine="0",model_name="a {b} c"} 2.0
vllm:num_requests_waiting_by_reason{engine="0"} 9.0
vllm:generation_tokens_total 1.5e+09
"""
SGLANG = """\
sglang:num_running_reqs{model_name="x"} 8
sglang:num_queue_reqs{model_name="x"} 4
sglang:token_usage{model_name="x"} 0.28
"""


class Server:
    """Stands in for vLLM and SGLang."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}

    def __call__(self, asked: di.Asked) -> di.Reply:
        if asked.path not in self.pages:
            return di.Reply(404)
        return di.Reply(body=self.pages[asked.path])


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with di.Hub(server, 0) as hub:
        yield f"http://127.0.0.1:{hub.port}"


@pytest.mark.parametrize(
    ("metrics", "count"),
    [
        pytest.param(VLLM, 6, id="vLLM"),
        pytest.param(SGLANG, 12, id="SGLang"),
        pytest.param("vllm:num_requests_running 0.0", 0, id="nothing"),
        pytest.param("vllm:num_requests_running 0.5", 1, id="never too few"),
        pytest.param("vllm:num_requests_running NaN", 0, id="no number"),
        pytest.param("vllm:num_requests_running x y", 0, id="another text"),
        pytest.param("up 1", None, id="it does not say"),
        pytest.param("", None, id="empty"),
    ],
)
def test_open_requests_are_read_from_metrics(metrics: str, count: int | None) -> None:
    assert in_hand(metrics) == count


@pytest.mark.parametrize("model", [b"", b"[]", b"{}", b'"x"', b"[" * 100_000])
def test_a_server_without_a_weight_version(model: bytes) -> None:
    assert weight_version(model) is None


def test_a_servers_health_metrics_and_version_are_read(server: Server, url: str) -> None:
    assert look(url) == Seen(False)
    server.pages["/health"] = b""
    assert look(url) == Seen(True)
    server.pages["/metrics"] = SGLANG.encode()
    server.pages["/get_model_info"] = json.dumps({"weight_version": "step-7"}).encode()
    assert look(url) == Seen(True, 12, "step-7")
    assert look("http://127.0.0.1:1") == Seen(False)


class TestFinishing:
    def test_finishing_waits_for_open_and_late_requests(self, clock: Clock) -> None:
        finishing = Finishing(clock)
        assert not finishing.is_over(Seen(True, 0))
        clock.pass_(QUIET_SECONDS - 0.1)
        assert not finishing.is_over(Seen(True, 2))
        clock.pass_(100)
        assert not finishing.is_over(Seen(True, 1))
        clock.pass_(QUIET_SECONDS - 0.1)
        assert not finishing.is_over(Seen(True, 0))
        clock.pass_(0.1)
        assert finishing.is_over(Seen(True, 0))

    def test_a_server_without_metrics_gets_half_a_minute(self, clock: Clock) -> None:
        finishing = Finishing(clock)
        assert not finishing.is_over(Seen(True))
        clock.pass_(SILENT_SECONDS - 0.1)
        assert not finishing.is_over(Seen(True))
        clock.pass_(0.1)
        assert finishing.is_over(Seen(True))

    def test_a_stopped_server_has_finished(self, clock: Clock) -> None:
        assert Finishing(clock).is_over(Seen(False))


@pytest.mark.proves("sdk.md#engines/weightversion")
def test_a_posted_version_overrides_the_servers() -> None:
    weights, told = Weights(), di.Asked("POST", "/weights", {"version": "41"})
    assert weights.version(Seen(True)) is None
    assert weights.version(Seen(True, 0, "step-7")) == "step-7"
    assert weights.answer(told) == di.Reply()
    assert weights.version(Seen(True, 0, "step-7")) == 41
    for wrong in (di.Asked("POST", "/weights"), di.Asked("GET", "/weights"), di.Asked("POST", "/")):
        with pytest.raises(LookupError):
            weights.answer(wrong)


class Board:
    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def __call__(self, url: str, **more: Any) -> None:
        self.said.append({"url": url, **more})


def ready(engine: Rollout) -> int:
    return requests.get(f"http://127.0.0.1:{engine.port}/ready", timeout=60).status_code


@pytest.mark.proves(
    "sdk.md#engines/ready",
    "sdk.md#reference/is-ready-bool",
    "sdk.md#reference/has-weight-version-any-more-any-none",
    "sdk.md#reference/lacks-none",
    "sdk.md#reference/di-rollout-port-int-22270-path-str-drain",
    "sdk.md#reference/asked-bool-true-once-the-pod-was-asked-to-drain-2",
    "sdk.md#reference/wait-seconds-float-none-none-bool-wait-for-the-drain-request-return-2",
    "sdk.md#reference/done-none-report-that-all-work-is-finished-the-2",
)
def test_an_engine_is_ready_while_it_has_weights_and_does_not_drain() -> None:
    board = Board()
    with Rollout(0, "/drain", url="http://a:8000", say=board) as engine:
        assert ready(engine) == 503
        engine.has(41, load=0.5)
        assert (ready(engine), engine.is_ready, engine.asked) == (200, True, False)
        engine.lacks()
        assert ready(engine) == 503
        engine.has(42)
        drain = threading.Thread(
            target=di.call, args=("GET", f"http://127.0.0.1:{engine.port}/drain")
        )
        drain.start()
        assert engine.wait(60)
        assert (ready(engine), engine.is_ready, engine.asked) == (503, False, True)
        with pytest.raises(di.Refused, match="404"):
            di.call("GET", f"http://127.0.0.1:{engine.port}/else")
        engine.done()
        drain.join(60)
    assert board.said == [
        {"url": "http://a:8000", "weightVersion": 41, "load": 0.5},
        {"url": "http://a:8000", "weightVersion": 42},
    ]


def test_an_entry_is_sent_for_new_weights_and_periodically(clock: Clock) -> None:
    board = Board()
    looks = [
        Seen(False),
        Seen(True, 0, "1"),
        Seen(True, 3, "1"),
        Seen(True, 4, "2"),
        Seen(True, 5, "2"),
        Seen(False),
        Seen(True, 6, "2"),
    ]
    leaving = threading.Event()

    class Watched(Rollout):
        """Waits for nothing."""

        @override
        def wait(self, seconds: float | None = None) -> bool:
            clock.pass_(TELL_SECONDS / 2 if looks[0].in_hand == 5 else 1)
            return False

    def next_look() -> Seen:
        if not looks[1:]:
            leaving.set()
        return looks.pop(0) if looks else Seen(True, 0, "2")

    with Watched(0, "/drain", url="http://a:8000", say=board) as engine:
        serve(engine, Weights(), next_look, leaving, clock=clock, pause=clock.pass_)
        assert engine._done.is_set()
    assert [(said["weightVersion"], said["inHand"]) for said in board.said] == [
        (1, 0),
        (2, 4),
        (2, 6),
    ]


CHILD = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = {"/health": b"", "/metrics": b"vllm:num_requests_running 0.0"}.get(self.path)
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(body or b"")

HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
"""Stands in for `vllm serve`."""


@pytest.fixture
def pod(url_of_server: str) -> dict[str, str]:
    """The environment of a pod of the job."""
    return {**os.environ, **LEARNER, names.ENV_SERVER_URL: url_of_server}


@pytest.fixture
def url_of_server(harness: Harness) -> Iterator[str]:
    yield from serving(harness)


def command(*more: str) -> list[str]:
    return [sys.executable, "-m", rollout_server.__name__, *more]


@pytest.mark.proves(
    "sdk.md#engines/on-the-board", "sdk.md#engines/drain", "sdk.md#engines/exit-code"
)
def test_a_wrapped_server_publishes_drains_and_ends(pod: dict[str, str]) -> None:
    with held_ports(2) as (port, serves):
        url = f"http://127.0.0.1:{port}"
        program = command(
            *("--server", f"http://127.0.0.1:{serves}", "--port", str(port)),
            *("--", sys.executable, "-c", CHILD, str(serves)),
        )
        with Program(program, env=pod) as running:
            try:
                di.call("GET", f"{url}/ready", seconds=60)
                di.call("POST", f"{url}/weights?version=41")

                def told() -> bool:
                    job = di.Client(*_connection(pod))
                    (member,) = job.members()
                    assert member.url == f"http://learner-0:{serves}"
                    return bool(member.says["weightVersion"] == 41)

                wait_until(told)
                di.call("GET", f"{url}/drain", seconds=60)
                running.terminate()
                assert running.wait(60) == 0
            finally:
                running.kill()


def test_a_server_is_checked_at_the_pods_own_address_too(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """As under `di run`, where a server for all addresses listens on that of its pod."""
    places = places_of("http://127.0.0.1:8000", "x-rollout-0.x")
    assert places == ("http://127.0.0.1:8000", "http://x-rollout-0.x:8000")
    assert places_of("http://other:8000", "x-rollout-0.x") == ("http://other:8000",)
    up: set[str] = set()
    watcher = Watcher(places, lambda url: Seen(url in up), clock=clock)
    assert not watcher().is_up
    assert caplog.text == ""
    clock.pass_(NOT_UP_SECONDS)
    assert not watcher().is_up
    assert "http://127.0.0.1:8000/health and http://x-rollout-0.x:8000/health" in caplog.text
    up.add(places[1])
    assert watcher().is_up


@pytest.mark.proves("sdk.md#engines/exit-code")
def test_a_server_that_fails_fails_the_pod(pod: dict[str, str]) -> None:
    child = (sys.executable, "-c", "raise SystemExit(7)")
    with held_ports(1) as (port,):
        program = command("--port", str(port), "--", *child)
        assert subprocess.run(program, env=pod, timeout=60, check=False).returncode == 7


def _connection(environment: dict[str, str]) -> Any:
    return connection(di.Job.of(environment))


def test_metrics_pages_are_bounded(
    url: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "MOST_BYTES", 10)
    server.pages = {"/health": b"", "/metrics": VLLM.encode()}
    assert look(url) == Seen(True)
