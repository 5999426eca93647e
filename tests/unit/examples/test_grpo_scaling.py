"""When the learner of the GRPO example asks for an engine more or fewer, and how it asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from di_grpo import di_server
from di_grpo.client import Answer, Unreachable
from di_grpo.di_server import ATTEMPTS, DIServer
from di_grpo.peers import Peers
from di_grpo.scaling import NOTHING_STALE, PAUSE_SECONDS, STEPS, WAITS, Step, Window, wanted_change


@pytest.mark.parametrize(
    ("engines", "waiting", "stale", "change"),
    [
        pytest.param(3, WAITS, 0.0, 1, id="it waits, and nothing is stale"),
        pytest.param(3, WAITS, NOTHING_STALE, 1, id="it waits, and next to nothing is stale"),
        pytest.param(3, WAITS - 0.01, 0.0, 0, id="it hardly waits"),
        pytest.param(3, WAITS, NOTHING_STALE + 0.01, 0, id="it waits, and throws samples away"),
        pytest.param(3, 0.0, 0.34, -1, id="more than one of three brings is thrown away"),
        pytest.param(6, 0.0, 0.17, -1, id="more than one of six brings is thrown away"),
        pytest.param(3, 0.0, 0.17, 0, id="less than one of three brings"),
        pytest.param(6, 0.9, 0.5, -1, id="samples come in bursts: fewer, though it waits"),
        pytest.param(1, 0.0, 1.0, 0, id="the last engine stays"),
    ],
)
def test_wanted_change(engines: int, waiting: float, stale: float, change: int) -> None:
    assert wanted_change(engines=engines, waiting=waiting, stale=stale) == change


@pytest.mark.parametrize("engines", range(2, 7))
def test_one_engine_fewer_brings_enough(engines: int) -> None:
    """Only where the learner uses less than the others would bring."""
    others = engines - 1
    assert wanted_change(engines=engines, waiting=0, stale=1 - (others - 0.1) / engines) == -1
    assert wanted_change(engines=engines, waiting=0, stale=1 - (others + 0.1) / engines) == 0


STEP = Step(seconds=1.0, waited=0.25, used=2, stale=1)


class TestWindow:
    def test_it_tells_shares_of_time_and_of_samples(self) -> None:
        window = Window(0.0)
        assert (window.waiting, window.stale) == (0.0, 0.0)
        window.add(STEP)
        window.add(Step(seconds=3.0, waited=0.75, used=2, stale=0))
        assert window.waiting == 0.25
        assert window.stale == 0.2

    def test_it_forgets(self) -> None:
        window = Window(0.0)
        window.add(Step(seconds=100.0, waited=100.0, used=2, stale=9))
        for _ in range(STEPS):
            window.add(STEP)
        assert window.waiting == 0.25

    def test_nothing_is_concluded_from_few_steps_or_too_soon(self) -> None:
        window = Window(0.0)
        for _ in range(STEPS - 1):
            window.add(STEP)
        assert not window.is_conclusive(PAUSE_SECONDS)
        window.add(STEP)
        assert not window.is_conclusive(PAUSE_SECONDS - 0.1)
        assert window.is_conclusive(PAUSE_SECONDS)

    def test_it_begins_anew_with_another_number_of_engines(self) -> None:
        window = Window(0.0)
        for _ in range(STEPS):
            window.add(STEP)
        window.change(50.0)
        assert window.waiting == 0.0
        for _ in range(STEPS):
            window.add(STEP)
        assert not window.is_conclusive(50.0 + PAUSE_SECONDS - 0.1)
        assert window.is_conclusive(50.0 + PAUSE_SECONDS)


class FakeServer:
    """Stands in for the HTTP exchange; gives the answers it was told, then good ones."""

    def __init__(self) -> None:
        self.answers: list[Answer | Unreachable] = []
        self.requests: list[tuple[str, str, object, Mapping[str, str], str | None]] = []

    def __call__(
        self,
        method: str,
        url: str,
        body: bytes | None,
        *,
        headers: Mapping[str, str],
        ca_file: str | None,
    ) -> Answer:
        self.requests.append((method, url, body and json.loads(body), headers, ca_file))
        if not self.answers:
            return Answer(200, b'{"data": {"task": "rollout", "replicas": 4}}')
        answer = self.answers.pop(0)
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    @property
    def keys(self) -> list[str]:
        return [headers["Idempotency-Key"] for *_, headers, _ in self.requests]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    fake = FakeServer()
    monkeypatch.setattr(di_server, "exchange", fake)
    return fake


ENVIRONMENT = {
    "DI_TASK_NAME": "learner",
    "DI_TASK_RANK": "0",
    "HOSTNAME": "grpo-learner-0",
    "DI_RANK": "0",
    "DI_NODES": "a,b,c,d,e",
    "DI_LEARNER_NODES": "a,b",
    "DI_ROLLOUT_NODES": "c,d,e",
    "DI_LEARNER_SERVICE": "grpo-learner.rl.svc:80",
    "DI_JUDGE_SERVICE": "grpo-judge.rl.svc:80",
    "DI_JOB_ID": "rl/grpo",
    "DI_SERVER_URL": "https://di-server",
    "DI_SERVER_CA_FILE": "/var/run/ca",
}


def client(**more: str) -> DIServer:
    return DIServer(peers=Peers.from_environment({**ENVIRONMENT, **more}), run="rl.grpo-1")


def test_a_pod_knows_its_job_from_its_environment() -> None:
    peers = Peers.from_environment(ENVIRONMENT)
    assert peers.first_learner == "http://a:22270"
    assert peers.learner_service == "http://grpo-learner.rl.svc:80"
    assert (peers.pod, peers.url) == ("grpo-learner-0", "http://a:22270")
    assert peers.engines == 3
    with pytest.raises(KeyError, match="DI_JUDGE_SERVICE"):
        Peers.from_environment(
            {key: value for key, value in ENVIRONMENT.items() if key != "DI_JUDGE_SERVICE"}
        )


def test_engines_are_added_and_removed_by_the_contract(server: FakeServer) -> None:
    asking = client()
    assert asking.scale("rollout", 1) == 4
    assert asking.scale("rollout", -1) == 4
    url = "https://di-server/v2alpha1/job/rl/grpo/replicas"
    body = {"task": "rollout", "replicas": 1}
    assert [request[:3] for request in server.requests] == [
        ("POST", url, body),
        ("DELETE", url, body),
    ]
    assert {request[-1] for request in server.requests} == {"/var/run/ca"}
    assert len(set(server.keys)) == 2


def test_a_request_that_may_be_lost_is_sent_again_under_the_same_key(server: FakeServer) -> None:
    server.answers = [Unreachable("nobody"), Answer(503)]
    assert client().scale("rollout", 1) == 4
    assert len(server.keys) == 3
    assert len(set(server.keys)) == 1


def test_a_bound_is_not_asked_about_again(server: FakeServer) -> None:
    server.answers = [Answer(422, b"at most 6")]
    assert client().scale("rollout", 1) is None
    assert len(server.requests) == 1


def test_a_server_that_stays_away_means_no_change(server: FakeServer) -> None:
    server.answers = [Unreachable("nobody")] * ATTEMPTS
    assert client().scale("rollout", 1) is None
    assert len(server.requests) == ATTEMPTS


def test_a_lost_report_does_no_harm_and_the_token_is_read_for_each(
    server: FakeServer, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    asking = client(DI_SERVER_TOKEN_FILE=str(token))
    for text in ("first", "renewed"):
        server.answers = [Unreachable("nobody")]
        token.write_text(text)
        asking.report({"step": 7})
    assert [request[:3] for request in server.requests] == [
        ("POST", "https://di-server/v2alpha1/job/rl/grpo/profilings", {"step": 7})
    ] * 2
    sent = [headers["Authorization"] for *_, headers, _ in server.requests]
    assert sent == ["Bearer first", "Bearer renewed"]


def test_a_pod_says_on_the_board_what_others_read_there(server: FakeServer) -> None:
    says = {"url": "http://c:22270", "weightVersion": 7, "load": 0.9}
    board = {"members": [{"pod": "grpo-rollout-0", "uid": "x", "task": "rollout", "says": says}]}
    server.answers = [Answer(200, b"{}"), Answer(200, json.dumps({"data": board}).encode())]
    asking = client()
    asking.say("grpo-rollout-0", says)
    assert asking.members("rollout") == {"grpo-rollout-0": says}
    url = "https://di-server/v2alpha1/job/rl/grpo/members"
    assert [request[:3] for request in server.requests] == [
        ("PUT", f"{url}/grpo-rollout-0", says),
        ("GET", f"{url}?task=rollout", None),
    ]


def test_a_board_that_nobody_shows_is_empty(server: FakeServer) -> None:
    server.answers = [Unreachable("nobody")]
    asking = client()
    asking.say("grpo-rollout-0", {"url": "http://c:22270"})
    server.answers = [Answer(503)]
    assert asking.members("rollout") == {}
    assert len(server.requests) == 2
