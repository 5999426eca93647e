"""Requests on the wire: files read for each, redirects, and errors."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from http.server import HTTPServer
from pathlib import Path

import pytest

from di_certs.authority import Authority
from di_orchestrator.server import api, exchange
from di_orchestrator.server.exchange import Answer, Request
from di_orchestrator.server.transport import MAX_ANSWER, Transport
from di_server.config import AuthMode
from di_server.deadline import LONGEST_WAIT, REQUEST_SECONDS
from tests.fakes.web import Handler, serving
from tests.unit.sdk import conftest
from tests.unit.server.fakes import job, make_harness, pod, watch


def test_time_limits_match_those_of_di_server() -> None:
    assert api.WAIT_SECONDS == LONGEST_WAIT
    assert exchange.ANSWER_SECONDS >= REQUEST_SECONDS


def test_the_token_is_read_for_each_request(tmp_path: Path) -> None:
    harness = make_harness(auth=AuthMode.REQUIRED)
    harness.add(job())
    user = {
        "username": "system:serviceaccount:rl:default",
        "extra": {
            "authentication.kubernetes.io/pod-name": ["cartpole-learner-0"],
            "authentication.kubernetes.io/pod-uid": ["uid-of-cartpole-learner-0"],
        },
    }
    harness.kube.users["second"] = user
    harness.add_pods(pod("cartpole-learner-0", 0, "127.0.0.1", task="learner"))
    watch(harness)
    token = tmp_path / "token"
    for url in conftest.serving(harness):
        way = Transport(url, str(token))
        request = Request("GET", "/v2alpha1/job/rl/cartpole/replicas")
        token.write_text("first\n")
        refused = way.send(request)
        assert isinstance(refused, Answer)
        assert refused.status == 401
        token.write_text("second\n")
        found = way.send(request)
        assert isinstance(found, Answer)
        assert found.status == 200


class _Odd(Handler):
    """Redirects, and answers without end."""

    def do_GET(self) -> None:
        if self.path.startswith("/redirect"):
            self.send_response(302)
            self.send_header("Location", "/endless")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        try:
            for _ in range(MAX_ANSWER // 65536 + 16):
                self.wfile.write(b" " * 65536)
        except OSError:
            pass


def test_redirects_and_endless_answers_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server = HTTPServer(("127.0.0.1", 0), _Odd)
    with serving(server) as address:
        way = Transport(f"http://{address}")
        redirected = way.send(Request("GET", "/redirect"))
        assert isinstance(redirected, Answer)
        assert redirected.status == 302
        endless = way.send(Request("GET", "/endless"))
        assert "longer than" in endless.reason  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "way",
    [
        Transport("http://127.0.0.1:9"),
        Transport("nonsense"),
        Transport("http://127.0.0.1:9", token_file="/nowhere"),
        Transport("https://127.0.0.1:9", ca_file="/nowhere"),
    ],
)
def test_a_transport_failure_is_returned_and_not_raised(way: Transport) -> None:
    assert way.send(Request("GET", "/x", seconds=2)).reason  # type: ignore[union-attr]


class _Plain(Handler):
    """Answers every request."""

    def do_GET(self) -> None:
        self.answer(200)


def test_the_authorities_are_read_for_each_request(tmp_path: Path) -> None:
    now, day = datetime.now(UTC), timedelta(days=1)
    known, other = (Authority.create(name, now=now, lifetime=day) for name in ("known", "other"))
    pair = known.issue("127.0.0.1", now=now, lifetime=day, hosts=["127.0.0.1"], server=True)
    (tmp_path / "tls.key").write_bytes(pair.private_key_pem)
    (tmp_path / "tls.crt").write_bytes(pair.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    server = HTTPServer(("127.0.0.1", 0), _Plain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    bundle = tmp_path / "ca.crt"
    found = []
    with serving(server) as address:
        way = Transport(f"https://{address}", ca_file=str(bundle))
        for authority in (known, other, known):
            bundle.write_bytes(authority.certificate_pem)
            answer = way.send(Request("GET", "/"))
            found.append(answer.status if isinstance(answer, Answer) else answer.reason)
    assert (found[0], found[2]) == (200, 200)
    assert "CERTIFICATE_VERIFY_FAILED" in str(found[1])
