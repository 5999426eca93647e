"""How servers tell each other of members: whatever is lost, the next exchange brings it."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest

from di_server.members import peers as peers_module
from di_server.members.board import Answer
from di_server.members.entry import HEARTBEAT, LIFETIME, MAX_SAYS, Entry
from di_server.members.exchange import MAX_BODY, Link, News, read_news
from di_server.members.peers import MAX_PEERS, PeerError, Peers, exchange
from di_server.members.service import tell
from di_server.members.shared import Members, Watched
from di_server.problems import Malformed
from di_service.settings import Address
from tests.unit.server.fakes import Clock
from tests.unit.server.members.test_board import entry, shown
from tests.waiting import wait_until


class Server:
    """One of several."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.members = Members(lives=lambda _: True, clock=clock, now=clock.wall)
        self.links: dict[int, Link] = {}
        self.largest = 0

    def answer(self, body: bytes) -> bytes:
        """What `MemberService.exchange` does."""
        news = read_news(json.loads(body))
        self.members.merge(news.server, news.entries)
        since = news.known_change if news.known_server == self.name else 0
        data = tell(self.members, self.name, since, to=news.server).dump()
        found = orjson.dumps({"data": data})
        self.largest = max(self.largest, len(body), len(found))
        return found

    def ask(self, other: Server, *, at: int = 0) -> int:
        """Exchange until there is no more; returns how many it took."""
        count, more = 0, True
        while more:
            link = self.links.setdefault(at, Link())
            more = exchange(self.members, self.name, link, other.answer)
            count += 1
        return count

    def pods(self) -> list[str]:
        return list(shown(self._all()))

    def generation(self) -> str:
        return self._all().generation

    def _all(self) -> Answer:
        return self.members.answer(Watched(job_uid="job", task=None, known="", changes=False))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pair(clock: Clock) -> tuple[Server, Server]:
    """Two servers, each with a member."""
    one, two = Server("one", clock), Server("two", clock)
    one.members.put(entry("a-0"))
    two.members.put(entry("a-1"))
    return one, two


def test_one_exchange_brings_both_up_to_date(pair: tuple[Server, Server], clock: Clock) -> None:
    one, two = pair
    one.ask(two)
    assert one.pods() == two.pods() == ["a-0", "a-1"]
    assert one.generation() == two.generation()
    # Known entries are not sent again.
    assert tell(one.members, "one", one.links[0].told, to="two").entries == []
    assert tell(two.members, "two", one.links[0].heard, to="one").entries == []
    # A new server gets all by asking, and a restarted one by being asked.
    new, again = Server("new", clock), Server("again", clock)
    new.ask(one)
    one.ask(again)
    assert new.generation() == again.generation() == one.generation()


def test_a_heartbeat_at_one_server_keeps_the_entry_at_all(clock: Clock) -> None:
    one, two = Server("one", clock), Server("two", clock)
    one.members.put(entry())
    one.ask(two)
    for version in range(2, 8):
        clock.sleep(HEARTBEAT)
        one.members.put(entry(version=version))
        one.ask(two)
        two.members.step()
        assert two.pods() == ["a-0"]
    clock.sleep(LIFETIME)
    two.members.step()
    assert two.pods() == []


def test_a_lost_exchange_is_made_up_by_the_next(pair: tuple[Server, Server]) -> None:
    one, two = pair
    one.links[0] = Link()

    def lost(body: bytes) -> bytes:
        two.answer(body)
        raise PeerError("reset")

    def never_sent(_: bytes) -> bytes:
        raise PeerError("refused")

    for call in (never_sent, lost):
        with pytest.raises(PeerError):
            exchange(one.members, one.name, one.links[0], call)
    one.ask(two)
    assert one.pods() == two.pods() == ["a-0", "a-1"]


def test_a_large_board_is_sent_in_parts_that_fit_into_a_request(clock: Clock) -> None:
    one, two = Server("one", clock), Server("two", clock)
    # What grows most when it is written as a text.
    says = {"url": "http://x", "x": '"' * 490}
    for number in range(1000):
        pod, uid = f"{'a' * 58}-{number:04}", f"{number:036}"
        one.members.put(entry(pod, says, pod_uid=uid, task="t" * 63, job_uid="job"))
    assert len(entry("a-0", says).says) <= MAX_SAYS
    assert one.ask(two) > 5
    assert len(two.pods()) == 1000
    assert two.largest <= MAX_BODY
    three = Server("three", clock)
    three.ask(one)
    assert len(three.pods()) == 1000
    assert one.largest <= MAX_BODY + 4096


def test_all_servers_agree_whatever_exchanges_are_lost(clock: Clock) -> None:
    for seed in range(10):
        rng = random.Random(seed)
        servers = [Server(f"s{number}", clock) for number in range(3)]
        for step in range(100):
            server = rng.choice(servers)
            pod = f"a-{rng.randrange(5)}"
            said = {"url": "http://x", "step": step}
            server.members.put(entry(pod, said))
            one, two = rng.sample(range(3), 2)
            link = servers[one].links.setdefault(two, Link())

            def call(body: bytes, other: Server = servers[two], rng: random.Random = rng) -> bytes:
                answer = other.answer(body) if rng.random() < 0.7 else b""
                if not answer or rng.random() < 0.3:
                    raise PeerError("lost")
                return answer

            try:
                exchange(servers[one].members, servers[one].name, link, call)
            except PeerError:
                continue
            clock.sleep(0.01)
        for _ in range(2):
            for one in range(3):
                for two in range(3):
                    if one != two:
                        servers[one].ask(servers[two], at=two)
        assert len({server.generation() for server in servers}) == 1


GOOD = News(server="s", entries=[(entry(), 1.0)], change=1).dump()
WRONG: dict[str, list[Any]] = {
    "server": [1],
    "change": [-1, True],
    "known": [[], {"server": "s", "change": "1"}],
    "entries": [
        *({}, [1], [{}]),
        *([{**GOOD["entries"][0], "age": age}] for age in (-1, "1")),
        *([{**GOOD["entries"][0], "says": says}] for says in ("x" * (MAX_SAYS + 1), "}", "[]")),
        [{**GOOD["entries"][0], "version": None}],
    ],
}


@pytest.mark.parametrize(
    "change", [{field: value} for field, values in WRONG.items() for value in values]
)
def test_a_bad_exchange_is_refused(change: dict[str, Any]) -> None:
    assert read_news(GOOD).entries[0][0].pod == "a-0"
    assert read_news({**GOOD, "new": 1}).server == "s"
    with pytest.raises(Malformed, match="this is no exchange of members"):
        read_news({**GOOD, **change})
    with pytest.raises(Malformed):
        read_news(None)


def _peers(server: Server, resolve: Any, connect: Any) -> Peers:
    return Peers(
        members=server.members,
        server=server.name,
        resolve=resolve,
        connect=connect,
        on_exchange=lambda _: None,
    )


def _refused(_: bytes) -> bytes:
    raise PeerError("refused")


def _at(*ports: int) -> list[Address]:
    return [Address(host="h", port=port) for port in ports]


def test_all_peers_are_asked_before_a_server_is_ready(clock: Clock) -> None:
    one, two, three = (Server(name, clock) for name in ("one", "two", "three"))
    two.members.put(entry("a-0"))
    # One of them is the server itself, and the third one is unreachable.
    answers = {1: one.answer, 2: two.answer, 4: three.answer}
    found = _at(1, 2, 3)
    peers = _peers(one, lambda: found, lambda address: answers.get(address.port, _refused))
    assert not peers.asked
    peers.look()
    wait_until(lambda: peers.asked, what="all peers to be asked")
    assert one.pods() == ["a-0"]
    one.members.put(entry("a-1"))
    wait_until(lambda: two.pods() == ["a-0", "a-1"], what="the other one to be notified")
    found[:] = _at(4)
    peers.look()
    wait_until(lambda: three.pods() == ["a-0", "a-1"], what="the new one to be notified")
    found.clear()
    peers.look()


def test_news_does_not_wait_behind_a_request_without_news(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_module, "PAUSE", 3600.0)
    monkeypatch.setattr(peers_module, "PERIOD", 0.001)
    one, two = Server("one", clock), Server("two", clock)
    calls: list[bytes] = []

    def answer(body: bytes) -> bytes:
        calls.append(body)
        return two.answer(body)

    found = _at(2)
    peers = _peers(one, lambda: found, lambda _: answer)
    peers.look()
    wait_until(lambda: len(calls) > 2, what="requests without news")
    one.members.put(entry("a-0"))
    wait_until(lambda: two.pods() == ["a-0"], what="the other one to be notified")
    found.clear()
    peers.look()


def test_the_number_of_peers_is_bounded(clock: Clock) -> None:
    asked: set[int] = set()

    def connect(address: Address) -> Any:
        asked.add(address.port)
        return _refused

    found = _at(*range(100, 200))
    peers = _peers(Server("one", clock), lambda: found, connect)
    peers.look()
    wait_until(lambda: peers.asked, what="all peers to be asked")
    assert len(asked) == MAX_PEERS
    found.clear()
    peers.look()


def test_peers_are_kept_while_the_name_server_is_unreachable(clock: Clock) -> None:
    one, two = Server("one", clock), Server("two", clock)
    answers: list[Any] = [_at(2), OSError("no name server"), []]

    def resolve() -> list[Address]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        found: list[Address] = answer
        return found

    peers = _peers(one, resolve, lambda _: two.answer)
    peers.look()
    peers.look()
    one.members.put(entry())
    wait_until(lambda: two.pods() == ["a-0"], what="the peer to be notified")
    peers.look()


def test_an_entry_is_unchanged_by_an_exchange() -> None:
    says = {"url": "http://x", "é": [1.5, None, '"', "\\"]}
    told = entry("a-0", says, version=2**53 + 1)
    (found, age) = read_news(
        json.loads(orjson.dumps(News(server="s", entries=[(told, 0.25)]).dump()))
    ).entries[0]
    assert (found, age) == (told, 0.25)
    assert isinstance(found, Entry)
    assert found.digest == told.digest
