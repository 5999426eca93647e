"""When a request is sent again, after which pause, and when it is given up."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from di_orchestrator.errors import Refused, Unreachable
from di_orchestrator.server.client import run
from di_orchestrator.server.exchange import Answer, Patience, Request, Silence, ask
from tests.unit.sdk.conftest import Clock

DONE = Answer(200, b'{"data": 7}')


class Server:
    """Returns configured answers, the last one forever; every request takes a second."""

    def __init__(self, clock: Clock, *said: Answer | Silence) -> None:
        self.clock = clock
        self.said = list(said)
        self.requests: list[Request] = []
        self.pauses: list[float] = []

    def send(self, request: Request) -> Answer | Silence:
        self.requests.append(request)
        self.clock.pass_(1)
        return self.said.pop(0) if len(self.said) > 1 else self.said[0]

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.pass_(seconds)

    def ask(self, *, seconds: float = 60, repeatable: bool = True) -> Any:
        exchange = ask(
            Request("POST", "/x", headers={"Idempotency-Key": "k"}),
            lambda data: data,
            Patience(seconds, Random(1)),
            self.clock,
            repeatable=repeatable,
        )
        return run(exchange, self.send, self.pause)


def refusal(status: int, message: str = "no", retry_after: float = 0) -> Answer:
    return Answer(status, json.dumps({"message": message, "data": None}).encode(), retry_after)


def test_an_answer_returns_its_data(clock: Clock) -> None:
    server = Server(clock, DONE)
    assert (server.ask(), len(server.requests), server.pauses) == (7, 1, [])


@pytest.mark.parametrize(
    "lost", [Silence("reset"), *(refusal(status) for status in (408, 429, 502, 503, 504))]
)
def test_a_temporary_failure_is_retried(clock: Clock, lost: Answer | Silence) -> None:
    server = Server(clock, lost, lost, DONE)
    assert server.ask() == 7
    assert len({request.headers["Idempotency-Key"] for request in server.requests}) == 1
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 422, 500])
def test_a_refusal_is_final_and_has_its_reason(clock: Clock, status: int) -> None:
    server = Server(clock, refusal(status, "task a must have at most 3 replicas"))
    with pytest.raises(Refused, match="POST /x: task a must have at most 3") as caught:
        server.ask()
    assert (caught.value.status, len(server.requests)) == (status, 1)


def test_retry_delays_grow_and_follow_retry_after(clock: Clock) -> None:
    server = Server(clock, *[Silence("away")] * 9, DONE)
    server.ask(seconds=1000)
    assert server.pauses[0] < 0.4
    assert 2.5 < server.pauses[-1] <= 7.5
    busy = Server(clock, refusal(429, retry_after=9), DONE)
    busy.ask()
    assert busy.pauses == [9]


def test_patience_is_a_deadline_for_all_tries(clock: Clock) -> None:
    began = clock.now
    server = Server(clock, Silence("connection refused"))
    with pytest.raises(Unreachable, match=r"within 20 s: connection refused; is di-server running"):
        server.ask(seconds=20)
    assert clock.now - began <= 21
    assert all(request.seconds <= 20 for request in server.requests)
    assert server.requests[-1].seconds < 10


def test_a_request_that_is_not_idempotent_is_sent_once(clock: Clock) -> None:
    server = Server(clock, Silence("reset"))
    with pytest.raises(Unreachable, match="may have taken effect"):
        server.ask(repeatable=False)
    assert len(server.requests) == 1
    busy = Server(clock, refusal(503), DONE)
    assert busy.ask(repeatable=False) == 7


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"success": true}', b"\xff"])
def test_an_answer_of_another_program_is_recognised(clock: Clock, body: bytes) -> None:
    with pytest.raises(Unreachable, match="none of di-server's"):
        Server(clock, Answer(200, body)).ask()
    with pytest.raises(Refused):
        Server(clock, Answer(404, body)).ask()
