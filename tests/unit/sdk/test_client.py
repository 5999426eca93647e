"""The client against the real application."""

from __future__ import annotations

import asyncio
import json

import pytest

import di_orchestrator as di
from di_kube.errors import Unavailable
from di_orchestrator import aio
from di_orchestrator.server.api import POLL_SECONDS, Api
from di_orchestrator.server.client import run
from di_orchestrator.server.connect import connection
from di_orchestrator.server.exchange import Answer, Request, Silence
from di_server.storage.transforms import transform_pod
from tests.unit.server.fakes import Harness, job, pod, task, watch

pytestmark = pytest.mark.usefixtures("learner")


@pytest.mark.proves(
    "sdk.md#scaling",
    "sdk.md#reference/scale-task-str-none-none-change-int-none",
    "sdk.md#reference/di-scale-task-str-none-collector-change",
)
def test_scale_adds_and_removes_replicas(harness: Harness) -> None:
    assert di.scale("collector", +2) == 4
    assert di.scale("collector", -1) == 3
    assert di.scale("collector", to=8) == 8
    assert di.scale("collector", to=8) == 8
    assert di.scale(None, to=2) == 2
    assert harness.replicas() == 2


@pytest.mark.proves(
    "sdk.md#reference/remove-names-str-int", "sdk.md#reference/di-remove-names-str-int-none"
)
def test_remove_takes_replicas_by_name(harness: Harness) -> None:
    assert di.remove("cartpole-collector-0") == 1
    assert harness.job()["spec"]["tasks"][1]["vacant"] == [0]


@pytest.mark.parametrize(("change", "to"), [(None, None), (1, 2), (0, None)])
def test_scale_takes_a_change_or_a_total(change: int | None, to: int | None) -> None:
    with pytest.raises(ValueError, match="change other than 0, or `to`"):
        di.scale("collector", change, to=to)


def test_a_refused_scale_names_the_bound() -> None:
    with pytest.raises(di.Refused, match="at most 32 replicas") as caught:
        di.scale("collector", to=33)
    assert caught.value.status == 422


def test_a_repeated_scale_request_takes_effect_once(harness: Harness) -> None:
    def lose_the_answer() -> None:
        harness.kube.before_patch = lambda: None
        harness.kube.failures = [Unavailable(kind="DIJob", code=503)] * 3

    harness.kube.before_patch = lose_the_answer
    assert di.scale("collector", +1) == 3
    assert harness.replicas() == 3


@pytest.mark.proves(
    "sdk.md#reference/replicas-dict-str-int",
    "sdk.md#reference/di-replicas-dict-str-int",
)
def test_replicas_returns_the_wanted_numbers(harness: Harness) -> None:
    before = di.replicas()
    assert before == {task["name"]: task["replicas"] for task in harness.job()["spec"]["tasks"]}
    di.scale("collector", to=5)
    assert di.replicas() == {**before, "collector": 5}


@pytest.mark.proves(
    "sdk.md#reference/peers-task-str-tuple-peer",
    "sdk.md#reference/di-peers-task-str-tuple-peer",
    "sdk.md#reference/di-peer-pod-str-rank-int-address-str",
)
def test_peers_returns_the_running_pods(harness: Harness) -> None:
    peers = di.peers("collector")
    assert peers == (
        di.Peer("cartpole-collector-0", 1, "10.0.0.2:22270"),
        di.Peer("cartpole-collector-1", 2, "10.0.0.3:22270"),
    )
    assert peers[0].url == "http://10.0.0.2:22270"
    with pytest.raises(di.Refused, match="no such task"):
        di.peers("actor")


@pytest.mark.proves(
    "sdk.md#who-am-i-who-are-the-others/di-peers-task-di-watch-peers-task",
    "sdk.md#reference/watch-peers-task-str-iterator-tuple-peer",
    "sdk.md#reference/di-watch-peers-task-str-iterator-tuple",
)
def test_watch_peers_follows_restarts_and_deletions(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("di_orchestrator.server.api.POLL_SECONDS", 0.01)
    monkeypatch.setattr("di_orchestrator.server.api.POLLS_PER_SECOND", 1000)
    changes = di.watch_peers("collector")
    assert [peer.address for peer in next(changes)] == ["10.0.0.2:22270", "10.0.0.3:22270"]
    again = pod("cartpole-collector-0", 1, "10.0.0.9")
    harness.add_pods(again)
    harness.caches.pods.on_event("MODIFIED", transform_pod(again))
    assert [peer.address for peer in next(changes)] == ["10.0.0.9:22270", "10.0.0.3:22270"]
    harness.caches.pods.on_event("DELETED", transform_pod(again))
    assert [peer.pod for peer in next(changes)] == ["cartpole-collector-1"]


def test_watch_peers_waits_at_the_server(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is polled: a pod that runs while the request waits ends it."""
    monkeypatch.setattr("di_orchestrator.server.api.POLL_SECONDS", 60.0)
    changes = di.watch_peers("collector")
    next(changes)
    began = harness.clock.now
    started = pod("cartpole-collector-2", 3, "10.0.0.4")

    def start() -> None:
        if harness.clock.now - began >= 3:
            harness.caches.pods.on_event("MODIFIED", transform_pod(started))

    harness.clock.after_sleep = start
    assert [peer.rank for peer in next(changes)] == [1, 2, 3]
    assert harness.clock.now - began == 3


def test_an_empty_wait_is_repeated_at_once() -> None:
    moment = [0.0]
    pods = json.dumps({"data": [{"pod": "a-0", "rank": 0, "address": "10.0.0.1:22270"}]}).encode()
    answers = [Answer(200, pods, tag='"1"'), Answer(304), Answer(200, b'{"data": []}', tag='"2"')]
    pauses: list[float] = []

    def send(request: Request) -> Answer:
        moment[0] += float(request.query.get("wait", 0))
        return answers.pop(0)

    api = Api("rl/a", "a-0", clock=lambda: moment[0])
    known = run(api.next_peers("collector", None), send)
    assert run(api.next_peers("collector", known), send, pauses.append).peers == ()
    assert pauses == []


def test_an_older_di_server_is_polled() -> None:
    pods = [{"pod": "a-0", "rank": 0, "address": "10.0.0.1:22270"}]
    answers = [pods, pods, []]
    pauses: list[float] = []
    asked: list[Request] = []

    def send(request: Request) -> Answer:
        asked.append(request)
        return Answer(200, json.dumps({"data": answers.pop(0)}).encode())

    api = Api("rl/a", "a-0", clock=lambda: 0.0)
    known = run(api.next_peers("collector", None), send)
    found = run(api.next_peers("collector", known), send, pauses.append)
    assert [known.peers[0].pod, found.peers] == ["a-0", ()]
    assert pauses == [POLL_SECONDS]
    assert [dict(each.query) for each in asked] == [{}, {}, {}]


@pytest.mark.proves(
    "sdk.md#who-am-i-who-are-the-others/di-watch-worlds",
    "sdk.md#reference/watch-worlds-task-str-iterator-world",
    "sdk.md#reference/di-watch-worlds-task-str-none-none",
)
def test_watch_worlds_yields_each_generation(harness: Harness) -> None:
    def form(generation: int, members: dict[str, str]) -> None:
        group = {"generation": generation, "state": "Formed", "members": members}
        body = job(tasks=[task("learner", 2, processGroup={"elastic": True}), task()])
        body["status"]["groups"] = {"learner": group}
        harness.add(body)
        watch(harness)

    form(1, {"0": "u0"})
    worlds = di.watch_worlds()
    assert next(worlds) == di.World(
        1, True, (0,), "cartpole-learner-0.di-cartpole.rl.svc.cluster.local"
    )
    form(2, {"0": "u0", "1": "u1"})
    assert next(worlds).members == (0, 1)


@pytest.mark.proves("sdk.md#asyncio")
def test_the_asyncio_client_makes_the_same_requests(harness: Harness) -> None:
    async def use() -> None:
        client = aio.client()
        assert client is not None
        assert await client.scale("collector", to=4) == 4
        assert await client.remove("cartpole-collector-0") == 3
        assert (await client.replicas())["collector"] == 3
        assert [peer.rank for peer in await client.peers("collector")] == [1, 2]
        async for peers in client.watch_peers("learner"):
            assert [peer.pod for peer in peers] == ["cartpole-learner-0"]
            break
        assert await client.members() == ()
        async for members in client.watch_members():
            assert members == ()
            break
        with pytest.raises(di.Refused):
            await client.scale("collector", to=33)
        with pytest.raises(di.Refused, match="processGroup"):
            async for _ in client.watch_worlds("learner"):
                pass

    asyncio.run(use())


@pytest.mark.proves("sdk.md#asyncio")
def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(aio.Client) == public(di.Client)


@pytest.mark.proves(
    "sdk.md#who-am-i-who-are-the-others/di-members-task-di-watch-members-task",
    "sdk.md#reference/members-task-str-none-none-tuple-member",
    "sdk.md#reference/di-member-pod-str-uid-str-task-str-url",
    "sdk.md#reference/di-members-task-str-none-none-tuple",
)
def test_say_publishes_an_entry_that_members_reads(harness: Harness) -> None:
    di.say("http://127.0.0.1:8000", weightVersion=3)
    for members in di.watch_members("learner"):
        if members:
            break
    (member,) = members
    assert (member.pod, member.task, member.url) == (
        "cartpole-learner-0",
        "learner",
        "http://127.0.0.1:8000",
    )
    assert member.says["weightVersion"] == 3
    assert di.members() == members
    assert json.dumps(dict(member.says))


@pytest.mark.proves(
    "sdk.md#who-am-i-who-are-the-others/di-members-task-di-watch-members-task",
    "sdk.md#reference/watch-members-task-str-none-none",
    "sdk.md#reference/di-watch-members-task-str-none-none",
)
def test_watch_members_receives_changes_only(harness: Harness) -> None:
    others = [pod(f"cartpole-collector-{index}", 3 + index, f"10.0.1.{index}") for index in (5, 6)]
    harness.add_pods(*others)
    watch(harness)
    client, sent = recording()

    def said(index: int, load: int, path: str = "/v2alpha1/rl.cartpole/members") -> None:
        body = {"url": f"http://10.0.1.{index}", "load": load}
        answer = harness.client.put(f"{path}/cartpole-collector-{index}", json=body)
        assert answer.status_code == 200

    def loads(members: tuple[di.Member, ...]) -> list[tuple[str, int]]:
        return [(member.pod[-1], member.says["load"]) for member in members]

    boards = client.watch_members("collector")
    said(5, 1)
    assert loads(next(boards)) == [("5", 1)]
    said(6, 2)
    assert loads(next(boards)) == [("5", 1), ("6", 2)]
    said(5, 3)
    assert loads(next(boards)) == [("5", 3), ("6", 2)]
    gone = transform_pod(harness.kube.objects["pods", "rl", "cartpole-collector-5"])
    harness.caches.pods.on_event("DELETED", gone)
    harness.members.on_pod("DELETED", gone)
    assert loads(next(boards)) == [("6", 2)]
    # Each but the first was of one member alone, or of none.
    assert [answer.count(b'"uid"') for answer in sent] == [1, 1, 1, 0]


def recording() -> tuple[di.Client, list[bytes]]:
    """A client of this pod, and the answers that it had."""
    found = connection(di.job())
    assert found is not None
    api, send = found
    answers: list[bytes] = []

    def recorded(request: Request) -> Answer | Silence:
        answer = send(request)
        assert isinstance(answer, Answer)
        answers.append(answer.body)
        return answer

    return di.Client(api, recorded), answers
