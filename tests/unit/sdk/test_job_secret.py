"""Pods of a job know each other by its secret; a neighbour is not answered."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import di_orchestrator as di
from di_api import names
from di_operator.builders import access
from di_orchestrator.pods import calls, proof

SECRET = access.job_secret(b"k" * 32, "uid-1")
OTHER = access.job_secret(b"k" * 32, "uid-2")
NOW = 1_800_000_000.0
HOSTS = ("127.0.0.1", "[::1]")

pytestmark = pytest.mark.proves(
    "sdk.md#between-pods", "security.md#ports-in-the-pods-of-jobs/di-hub"
)


@pytest.fixture(autouse=True)
def _in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(names.ENV_JOB_SECRET, SECRET)
    monkeypatch.setattr(calls, "RETRY_SECONDS", 0.001)


def answer(asked: di.Asked) -> di.Reply:
    return di.Reply(body=asked.body[::-1] + asked.target.encode())


@pytest.fixture
def port() -> Iterator[int]:
    with di.Hub(answer, 0, public=["/metrics"]) as found:
        yield found.port


def ask(port: int, method: str, target: str, body: bytes = b"", **headers: str) -> int:
    """The status of the answer to a request without `di.call`."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request(method, target, body, {name.replace("_", "-"): v for name, v in headers.items()})
    status = client.getresponse().status
    client.close()
    return status


def test_a_probe_that_is_refused_is_logged_with_what_helps(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert ask(port, "GET", "/ready?x=1", User_Agent="kube-probe/1.37") == 401
    assert ask(port, "GET", "/other") == 401
    (record,) = caplog.records
    assert "di.Hub(..., public=['/ready']) lets the kubelet ask" in record.getMessage()


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("target", ["/x?who=a&have=1", "/a b?c=d e", "/\N{SNOWMAN}", "//y//z"])
def test_a_pod_of_the_job_is_answered(port: int, host: str, target: str) -> None:
    said = di.call("POST", f"http://{host}:{port}{target}", b"abc")
    assert said.startswith(b"cba/")


@pytest.mark.parametrize("secret", ["", OTHER])
def test_a_neighbour_is_refused(port: int, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(names.ENV_JOB_SECRET, secret)
    for method in ("GET", "POST", "PUT", "DELETE"):
        with pytest.raises(di.Refused, match="only pods of the job"):
            di.call(method, f"http://127.0.0.1:{port}/x", b"abc")


def proven(
    method: str = "POST", target: str = "/x", body: bytes = b"abc", late: float = 0.0
) -> str:
    return proof.proof(SECRET.encode(), method, target, body, now=NOW - late)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (proven(), 200),
        (proven(late=proof.SECONDS / 2), 200),
        (proven(late=proof.SECONDS + 60), 401),
        (proven(late=-proof.SECONDS - 60), 401),
        (proven(method="PUT"), 401),
        (proven(target="/y"), 401),
        (proven(body=b"abd"), 401),
        ("", 401),
        ("a b c", 401),
        ("1 2", 401),
        (f"{'9' * 400} {'0' * 64} {'0' * 64}", 401),
        ("1 \N{LATIN SMALL LETTER E WITH ACUTE} x", 401),
    ],
)
def test_a_proof_is_of_one_request_and_a_few_minutes(
    port: int, header: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    assert ask(port, "POST", "/x", b"abc", DI_Proof=header) == status


def test_the_body_of_a_stranger_is_not_read(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        sock.sendall(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert sock.recv(12) == b"HTTP/1.1 401"


def test_the_secret_is_in_no_request(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as spy:

        def listen() -> None:
            sock, _ = spy.accept()
            seen.append(sock.recv(65536))
            sock.sendall(b"HTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n")
            sock.close()

        thread = threading.Thread(target=listen)
        thread.start()
        di.call("GET", f"http://127.0.0.1:{spy.getsockname()[1]}/x")
        thread.join()
    assert proof.HEADER.encode() in seen[0]
    assert SECRET.encode() not in seen[0]


def test_public_paths_are_for_everybody_who_reads(port: int) -> None:
    assert [ask(port, "GET", "/metrics"), ask(port, "POST", "/metrics")] == [200, 401]


def test_a_hub_may_be_for_everybody() -> None:
    with di.Hub(answer, 0, job_only=False) as found:
        assert ask(found.port, "POST", "/x") == 200


def test_outside_a_job_everybody_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(names.ENV_JOB_SECRET)
    with di.Hub(answer, 0) as found:
        assert ask(found.port, "GET", "/x") == 200


@pytest.mark.proves("security.md#ports-in-the-pods-of-jobs/the-drain-of-*")
def test_a_kubelet_may_ask_to_drain_and_a_neighbour_may_not() -> None:
    token = access.drain_token(SECRET)
    assert token == proof.drain_token(SECRET.encode())
    assert SECRET not in token
    with di.Drain(0, "/leave") as drain:
        for shown in ("", access.drain_token(OTHER), SECRET):
            assert ask(drain.port, "GET", "/leave", DI_Drain_Token=shown) == 401
        assert ask(drain.port, "GET", "/else", DI_Drain_Token=token) == 401
        assert not drain.asked
        drain.done()
        assert ask(drain.port, "GET", "/leave", DI_Drain_Token=token) == 200
        assert drain.asked


def test_a_probe_of_readiness_needs_no_proof() -> None:
    with di.rollout(0) as engine:
        assert ask(engine.port, "GET", "/ready") == 503
        assert ask(engine.port, "POST", "/weights?version=1") == 401


def test_slow_strangers_stop_no_pod_of_the_job(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(300):
            sock = stack.enter_context(
                socket.create_connection(("127.0.0.1", port), 60, ("127.0.0.2", 0))
            )
            sock.sendall(b"GET / ")
        for host in HOSTS * 3:
            assert di.call("GET", f"http://{host}:{port}/x", seconds=60) == b"/x"


def test_a_system_without_ipv6_has_a_hub_for_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    create = socket.create_server

    def refused(address: tuple[str, int], **options: Any) -> socket.socket:
        if options.get("family") == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return create(address, **options)

    monkeypatch.setattr(socket, "create_server", refused)
    with di.Hub(answer, 0) as found:
        assert di.call("GET", f"http://127.0.0.1:{found.port}/x") == b"/x"


def test_a_taken_port_is_an_error(port: int) -> None:
    with pytest.raises(OSError, match="in use"), di.Hub(answer, port):
        pass
