"""How servers tell each other of members: whatever is lost, the next exchange brings it."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest

from di_api.service.settings import Address
from di_server.members.board import Answer
from di_server.members.entry import HEARTBEAT, LIFETIME, MAX_SAYS, Entry
from di_server.members.exchange import MAX_BODY, Link, News, read_news
from di_server.members.peers import MAX_PEERS, PeerError, Peers, exchange
from di_server.members.service import tell
from di_server.members.shared import Members, Watched
from di_server.problems import Malformed
from tests.unit.server.fakes import Clock
from tests.unit.server.test_members_board import entry, shown
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


def test_one_exchange_tells_both(clock: Clock) -> None:
    one, two = Server("one", clock), Server("two", clock)
    one.members.put(entry("a-0"))
    two.members.put(entry("a-1"))
    one.ask(two)
    assert one.pods() == two.pods() == ["a-0", "a-1"]
    assert one.generation() == two.generation()
    # What is known is not told again, by neither.
    assert tell(one.members, "one", one.links[0].told, to="two").entries == []
    assert tell(two.members, "two", one.links[0].heard, to="one").entries == []


def test_a_new_server_that_nobody_knows_yet_learns_all_by_asking(clock: Clock) -> None:
    one, two, new = (Server(name, clock) for name in ("one", "two", "new"))
    one.members.put(entry("a-0"))
    two.members.put(entry("a-1"))
    one.ask(two)
    new.ask(one)
    assert new.generation() == one.generation()


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


def test_an_exchange_without_answer_is_made_good_by_the_next(clock: Clock) -> None:
    one, two = Server("one", clock), Server("two", clock)
    one.ask(two)
    one.members.put(entry("a-0"))
    two.members.put(entry("a-1"))

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


def test_a_server_that_began_anew_is_told_everything(clock: Clock) -> None:
    one, two = Server("one", clock), Server("two", clock)
    one.members.put(entry("a-0"))
    two.members.put(entry("a-1"))
    one.ask(two)
    again = Server("again", clock)
    one.ask(again)
    # Also what the one before had told.
    assert again.pods() == ["a-0", "a-1"]


def test_a_large_board_is_told_in_parts_that_fit_into_a_request(clock: Clock) -> None:
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


def test_whatever_is_lost_all_agree_in_the_end(clock: Clock) -> None:
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


@pytest.mark.parametrize(
    "change",
    [
        {"server": 1},
        {"change": -1},
        {"change": True},
        {"known": []},
        {"known": {"server": "s", "change": "1"}},
        {"entries": {}},
        {"entries": [1]},
        {"entries": [{}]},
        {"entries": [{**GOOD["entries"][0], "age": -1}]},
        {"entries": [{**GOOD["entries"][0], "age": "1"}]},
        {"entries": [{**GOOD["entries"][0], "says": "x" * (MAX_SAYS + 1)}]},
        {"entries": [{**GOOD["entries"][0], "says": "}"}]},
        {"entries": [{**GOOD["entries"][0], "says": "[]"}]},
        {"entries": [{**GOOD["entries"][0], "version": None}]},
    ],
)
def test_what_is_no_exchange_is_refused(change: dict[str, Any]) -> None:
    assert read_news(GOOD).entries[0][0].pod == "a-0"
    assert read_news({**GOOD, "new": 1}).server == "s"
    with pytest.raises(Malformed, match="this is no exchange of members"):
        read_news({**GOOD, **change})
    with pytest.raises(Malformed):
        read_news(None)


def _peers(server: Server, found: list[Address], others: dict[int, Any]) -> Peers:
    def connect(address: Address) -> Any:
        def call(body: bytes) -> bytes:
            other = others.get(address.port)
            if other is None:
                raise PeerError("refused")
            answer: bytes = other.answer(body)
            return answer

        return call

    return Peers(
        members=server.members,
        server=server.name,
        resolve=lambda: found,
        connect=connect,
        on_exchange=lambda _: None,
    )


def test_all_who_are_there_are_asked_before_a_server_is_ready(clock: Clock) -> None:
    one, two = Server("one", clock), Server("two", clock)
    two.members.put(entry("a-0"))
    found = [Address(host="h", port=port) for port in (1, 2, 3)]
    peers = _peers(one, found, {1: one, 2: two})
    assert not peers.asked
    peers.look()
    # One of them is the server itself, and the third one is away.
    wait_until(lambda: peers.asked, 10, what="all peers to be asked")
    assert one.pods() == ["a-0"]
    one.members.put(entry("a-1"))
    wait_until(lambda: two.pods() == ["a-0", "a-1"], 10, what="the other one to be told")
    # Who goes is asked no more; who comes is.
    three = Server("three", clock)
    found[:] = [Address(host="h", port=4)]
    peers_others = {4: three}
    again = _peers(one, found, peers_others)
    again.look()
    wait_until(lambda: three.pods() == ["a-0", "a-1"], 10, what="the third to be told")
    for each in (peers, again):
        found.clear()
        each.look()


def test_no_more_peers_are_followed_than_there_is_a_thread_for(clock: Clock) -> None:
    server = Server("one", clock)
    asked: set[int] = set()

    def connect(address: Address) -> Any:
        asked.add(address.port)

        def call(_: bytes) -> bytes:
            raise PeerError("refused")

        return call

    found = [Address(host="h", port=port) for port in range(100, 200)]
    peers = Peers(
        members=server.members,
        server="one",
        resolve=lambda: found,
        connect=connect,
        on_exchange=lambda _: None,
    )
    peers.look()
    wait_until(lambda: peers.asked, 10, what="all peers to be asked")
    assert len(asked) == MAX_PEERS
    found.clear()
    peers.look()


def test_a_name_server_that_is_away_ends_nothing(clock: Clock) -> None:
    one, two = Server("one", clock), Server("two", clock)
    answers: list[Any] = [[Address(host="h", port=2)], OSError("no name server"), []]

    def resolve() -> list[Address]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        found: list[Address] = answer
        return found

    peers = Peers(
        members=one.members,
        server="one",
        resolve=resolve,
        connect=lambda _: two.answer,
        on_exchange=lambda _: None,
    )
    peers.look()
    peers.look()
    one.members.put(entry())
    wait_until(lambda: two.pods() == ["a-0"], 10, what="the peer to be told")
    peers.look()


def test_an_entry_keeps_what_it_is_on_the_way() -> None:
    says = {"url": "http://x", "é": [1.5, None, '"', "\\"]}
    told = entry("a-0", says, version=2**53 + 1)
    (found, age) = read_news(
        json.loads(orjson.dumps(News(server="s", entries=[(told, 0.25)]).dump()))
    ).entries[0]
    assert (found, age) == (told, 0.25)
    assert isinstance(found, Entry)
    assert found.digest == told.digest
