"""What the learner of the IMPALA example says to its collectors and to di-server, and when."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from di_impala import di_server
from di_impala.book import EPISODES, PRESENT_SECONDS, Book
from di_impala.client import Answer, Left, Refused, Unreachable, ask
from di_impala.di_server import ATTEMPTS, DIServer
from di_impala.hub import MAX_BODY, Request, serve
from di_impala.messages import pack, unpack
from di_impala.network import first_weights
from di_impala.peers import PORT, Peers
from di_impala.record import POINTS, Record
from di_impala.scaling import DROPS, WAITS, Window, wanted_change
from di_impala.unrolls import STEPS

from di_api import names
from tests.unit.examples.test_impala_learning import floats, played

WEIGHTS = first_weights(1)
MAX_BYTES = 32 * 1024
"""Of all profilings of a job."""


class FakeClock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def asked(who: str, have: int) -> Request:
    return Request(method="GET", path="/weights", query={"who": who, "have": str(have)})


def brought(who: str, have: int, *returns: float) -> Request:
    body = pack(**{**played(WEIGHTS, version=have), "returns": floats(*returns)})
    return replace(asked(who, have), method="POST", path="/unrolls", body=body)


class TestBook:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def book(self, clock: FakeClock) -> Book:
        """One with version 5 of the weights."""
        made = Book(clock=clock)
        made.publish(5, WEIGHTS)
        return made

    @pytest.mark.parametrize("request_of", [asked, brought])
    def test_who_has_other_weights_is_told_the_newest(
        self, book: Book, request_of: Callable[[str, int], Request]
    ) -> None:
        for have in (-1, 4, 57):
            said = unpack(book.answer(request_of("a", have)).body)
            assert said.pop("version") == 5
            assert said.keys() == WEIGHTS.keys()
        assert book.answer(request_of("a", 5)) == Answer(200)

    def test_unrolls_are_taken_when_there_are_enough(self, book: Book) -> None:
        book.answer(brought("a", 4))
        assert book.take(2, seconds=0) == []
        book.answer(brought("b", 5))
        assert [unroll.version for unroll in book.take(2, seconds=0)] == [4, 5]
        assert book.env_steps == 2 * STEPS

    def test_the_mean_return_is_that_of_the_last_episodes_once_there_are_enough(
        self, book: Book
    ) -> None:
        for each in range(EPISODES - 1):
            book.answer(brought("a", 5, each))
        assert book.mean_return() == 0
        book.answer(brought("a", 5, EPISODES - 1, EPISODES))
        assert book.mean_return() == (1 + EPISODES) / 2

    def test_who_is_silent_is_not_present_and_who_comes_again_is_one(
        self, book: Book, clock: FakeClock
    ) -> None:
        book.answer(asked("a", -1))
        clock.now += PRESENT_SECONDS
        book.answer(asked("b", -1))
        book.answer(brought("b", 5))
        assert book.collectors() == 2
        clock.now += 1
        assert book.collectors() == 1

    def test_what_it_does_not_know_is_an_error(self, book: Book) -> None:
        wrong = asked("a", 5)
        for each in (replace(wrong, path="/else"), replace(wrong, query={"who": "a"})):
            with pytest.raises(LookupError):
                book.answer(each)
        with pytest.raises(ValueError, match="no arrays"):
            book.answer(replace(wrong, method="POST", path="/unrolls", body=b"x"))
        assert book.answer(replace(wrong, path="/ready", query={})).code == 200


class TestHub:
    def test_a_collector_talks_through_it(self) -> None:
        book, staying = Book(clock=FakeClock()), threading.Event()
        book.publish(5, WEIGHTS)
        hub = serve(book.answer, port=0)
        url = f"http://127.0.0.1:{hub.server_port}"
        try:
            news = ask("GET", f"{url}/weights?who=a&have=-1", leaving=staying)
            assert unpack(news)["version"] == 5
            body = brought("a", 5).body
            assert ask("POST", f"{url}/unrolls?who=a&have=5", body, leaving=staying) == b""
            assert book.collectors() == 1
            with pytest.raises(Refused, match="no arrays"):
                ask("POST", f"{url}/unrolls?who=a&have=5", b"x", leaving=staying)
            with pytest.raises(Refused, match="400"):
                ask("GET", f"{url}/weights", leaving=staying)
        finally:
            hub.shutdown()
            hub.server_close()

    def test_what_is_too_long_is_not_read(self) -> None:
        hub = serve(lambda _: Answer(200), port=0)
        url = f"http://127.0.0.1:{hub.server_port}/unrolls"
        leaving, clock = threading.Event(), FakeClock()
        leaving.set()
        try:
            # Its answer may be overtaken by the end of the connection.
            with pytest.raises((Refused, Left)):
                ask("POST", url, bytes(MAX_BODY + 1), leaving=leaving, clock=clock)
        finally:
            hub.shutdown()
            hub.server_close()

    def test_who_leaves_does_not_wait_for_a_learner_that_is_silent(self) -> None:
        leaving = threading.Event()
        leaving.set()
        with pytest.raises(Left):
            ask("GET", "http://127.0.0.1:1/weights", leaving=leaving)

    def test_patience_ends(self) -> None:
        seconds = iter((0.0, 119.0, 120.0))
        with pytest.raises(Unreachable):
            ask(
                "GET",
                "http://127.0.0.1:1/weights",
                leaving=threading.Event(),
                clock=lambda: next(seconds),
            )
        assert list(seconds) == []


@pytest.mark.parametrize(
    ("collectors", "waiting", "dropping", "change"),
    [
        pytest.param(4, WAITS, 0.0, 4, id="it waits"),
        pytest.param(4, WAITS - 0.01, 0.0, 0, id="it hardly waits"),
        pytest.param(4, 0.0, DROPS, 0, id="it drops what two bring"),
        pytest.param(5, 0.0, DROPS + 0.01, -2, id="it drops what more than half of them bring"),
        pytest.param(4, 0.9, 0.9, -2, id="unrolls come in bursts"),
        pytest.param(1, 0.0, 0.9, 0, id="the last one stays"),
        pytest.param(0, 1.0, 0.0, 0, id="nobody is there yet"),
    ],
)
def test_wanted_change(collectors: int, waiting: float, dropping: float, change: int) -> None:
    assert wanted_change(collectors=collectors, waiting=waiting, dropping=dropping) == change


def test_a_window_tells_shares_of_time_and_of_unrolls() -> None:
    window = Window(began=10.0)
    assert (window.waiting(10.0), window.dropping, window.lag) == (0, 0, 0)
    window.waited, window.used, window.dropped, window.behind = 3.0, 6, 2, 9
    assert (window.waiting(14.0), window.dropping, window.lag) == (0.75, 0.25, 1.5)


def test_a_long_record_fits_into_a_report() -> None:
    record = Record(target=475)
    for second in range(10 * POINTS):
        record.curve.append([1000.25 + second, 10_000_000 + second, 123.4])
    report = record.profilings(
        step=7, env_steps=900, seconds=3.0, collectors=4, waiting=0.5, lag=1.25
    )
    assert len(json.dumps(report)) < MAX_BYTES / 2
    assert len(report["curve"]) <= POINTS + 1
    assert report["curve"][-1] == record.curve[-1]
    assert (report["step"], report["envStepsPerSec"]) == (7, 300)
    # Of one that ends at a target a share would tell nothing.
    assert "totalSteps" not in report


ENVIRONMENT = {
    names.ENV_TASK_TYPE: "collector",
    names.ENV_TASK_NAME: "collector",
    names.ENV_TASK_RANK: "7",
    names.task_service_env("learner"): "impala-learner.rl.svc:80",
    names.ENV_JOB_ID: names.job_id("rl", "impala"),
    names.ENV_SERVER_URL: "https://di-server",
    names.ENV_SERVER_CA_FILE: "/var/run/ca",
}


def test_a_pod_knows_its_job_from_its_environment() -> None:
    peers = Peers.from_environment(ENVIRONMENT)
    assert (peers.name, peers.learner) == ("collector-7", "http://impala-learner.rl.svc:80")
    assert PORT == names.DI_PORT
    for missing in ENVIRONMENT.keys() - {names.ENV_SERVER_CA_FILE}:
        with pytest.raises(KeyError, match=missing):
            Peers.from_environment({k: v for k, v in ENVIRONMENT.items() if k != missing})


class FakeServer:
    """Stands in for the HTTP exchange; gives the answers it was told, then good ones."""

    def __init__(self) -> None:
        self.answers: list[Answer | Unreachable] = []
        self.requests: list[tuple[str, str, object]] = []
        self.headers: list[Mapping[str, str]] = []

    def __call__(
        self, method: str, url: str, body: bytes, *, headers: Mapping[str, str], ca_file: str | None
    ) -> Answer:
        assert ca_file == "/var/run/ca"
        self.requests.append((method, url, json.loads(body)))
        self.headers.append(headers)
        answer = self.answers.pop(0) if self.answers else Answer(200, b'{"data": {"replicas": 8}}')
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    @property
    def keys(self) -> list[str]:
        return [headers["Idempotency-Key"] for headers in self.headers]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    fake = FakeServer()
    monkeypatch.setattr(di_server, "exchange", fake)
    return fake


def client(**more: str) -> DIServer:
    return DIServer(peers=Peers.from_environment({**ENVIRONMENT, **more}), run="rl.impala-1")


def test_collectors_are_added_and_removed_by_the_contract(server: FakeServer) -> None:
    asking = client()
    assert (asking.scale("collector", 4), asking.scale("collector", -2)) == (8, 8)
    url = "https://di-server/v2alpha1/job/rl/impala/replicas"
    assert server.requests == [
        ("POST", url, {"task": "collector", "replicas": 4}),
        ("DELETE", url, {"task": "collector", "replicas": 2}),
    ]
    assert len(set(server.keys)) == 2


def test_a_request_that_may_be_lost_is_sent_again_under_the_same_key(server: FakeServer) -> None:
    server.answers = [Unreachable("nobody"), Answer(503)]
    assert client().scale("collector", 4) == 8
    assert len(server.keys) == 3
    assert len(set(server.keys)) == 1


@pytest.mark.parametrize(
    ("answers", "requests"), [([Answer(422)], 1), ([Unreachable("nobody")] * ATTEMPTS, ATTEMPTS)]
)
def test_a_bound_and_a_server_that_stays_away_mean_no_change(
    server: FakeServer, answers: list[Answer | Unreachable], requests: int
) -> None:
    server.answers = list(answers)
    assert client().scale("collector", 4) is None
    assert len(server.requests) == requests


def test_a_lost_report_does_no_harm_and_the_token_is_read_for_each(
    server: FakeServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    asking = client(DI_SERVER_TOKEN_FILE=str(token))
    for text in ("first", "renewed"):
        server.answers = [Unreachable("nobody")]
        token.write_text(text)
        asking.report({"step": 7})
    url = "https://di-server/v2alpha1/job/rl/impala/profilings"
    assert server.requests == [("POST", url, {"step": 7})] * 2
    assert [headers["Authorization"] for headers in server.headers] == [
        "Bearer first",
        "Bearer renewed",
    ]
