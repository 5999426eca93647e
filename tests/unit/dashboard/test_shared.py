"""The shared dashboard: sign-in, sessions and their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from di_dashboard.cluster_cache.feed import OpenPages
from di_dashboard.cluster_cache.feed import TooMany as TooManyPages
from di_dashboard.pages.parts import Parts
from di_dashboard.shared.rejected_tokens import AT_ONCE, REFUSED_SECONDS, RejectedTokens, TooMany
from di_dashboard.shared.rights import AGAIN_SECONDS, TRUST_SECONDS, Caller, Known, Rights
from di_dashboard.shared.sessions import MOST_OF_USER, Full, NothingToSee, Sessions
from di_kube.errors import ApiError, Unauthorized, Unavailable

ALL = frozenset({"dijobs", "pods", "events", "nodes"})
ONE, OTHER = Caller("one"), Caller("other")


@dataclass
class House:
    """Sessions of callers whose rights a test decides."""

    most: int = 2
    now: float = 1000.0
    readable: dict[str, frozenset[str]] = field(default_factory=lambda: {"one": ALL, "other": ALL})
    users: dict[str, str] = field(default_factory=dict)
    """Of tokens; of others the user is called as the token."""
    fails: ApiError | None = None
    asked: int = 0
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    stays: dict[str, Callable[[], bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known = Known(self._find, clock=lambda: self.now)
        self.sessions = Sessions(
            self._open, self.known, most=self.most, idle_seconds=300, clock=lambda: self.now
        )

    def _find(self, caller: Caller, scope: str | None) -> Rights:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        if caller.token not in self.readable:
            raise Unauthorized(kind="SelfSubjectReview", code=401)
        user = self.users.get(caller.token, caller.token)
        return Rights(user=user, readable=self.readable[caller.token])

    @contextmanager
    def _open(
        self, caller: Caller, scope: str | None, rights: Rights, stay: Callable[[], bool]
    ) -> Iterator[Parts]:
        name = f"{caller.token}/{scope}"
        self.opened.append(name)
        self.stays[name] = stay
        yield cast("Parts", name)
        self.closed.append(name)


@pytest.fixture
def house() -> House:
    return House()


def test_a_returning_user_finds_the_open_session(house: House) -> None:
    first = house.sessions.enter(ONE, None)
    assert [house.sessions.enter(ONE, None), house.sessions.enter(Caller("one"), None)] == [
        first
    ] * 2
    assert [house.opened, house.asked] == [["one/None"], 1]


def test_each_user_and_namespace_has_a_session() -> None:
    house = House(most=3)
    entered = [(ONE, None), (OTHER, None), (ONE, "a")]
    assert len({str(house.sessions.enter(*each)) for each in entered}) == 3
    assert house.opened == ["one/None", "other/None", "one/a"]


def test_a_revoked_token_closes_its_session(house: House) -> None:
    house.sessions.enter(ONE, None)
    del house.readable["one"]
    house.now += AGAIN_SECONDS + 1
    with pytest.raises(Unauthorized):
        house.sessions.enter(ONE, None)
    assert house.closed == ["one/None"]


def test_a_stream_ends_when_its_token_is_revoked(house: House) -> None:
    house.sessions.enter(ONE, None)
    stay = house.stays["one/None"]
    assert stay()
    del house.readable["one"]
    house.now += AGAIN_SECONDS + 1
    assert not stay()
    assert [house.closed, house.sessions.count, stay()] == [["one/None"], 0, False]


def test_a_lost_right_reopens_the_session(house: House) -> None:
    first = house.sessions.enter(ONE, None)
    house.readable["one"] = ALL - {"pods"}
    house.now += AGAIN_SECONDS + 1
    assert house.sessions.enter(ONE, None) == first
    assert [house.opened, house.closed] == [["one/None"] * 2, ["one/None"]]


def test_an_additional_right_closes_nothing(house: House) -> None:
    house.readable["one"] = ALL - {"pods"}
    house.sessions.enter(ONE, None)
    house.readable["one"] = ALL
    house.now += AGAIN_SECONDS + 1
    house.sessions.enter(ONE, None)
    assert house.closed == []


def test_a_session_survives_a_short_outage_of_the_api_server(house: House) -> None:
    house.sessions.enter(ONE, None)
    house.fails = Unavailable(kind="SelfSubjectReview", code=503)
    house.now += AGAIN_SECONDS + 1
    house.sessions.enter(ONE, None)
    house.now += TRUST_SECONDS
    with pytest.raises(Unavailable):
        house.sessions.enter(ONE, None)
    assert house.closed == ["one/None"]


def test_an_idle_session_is_closed(house: House) -> None:
    house.sessions.enter(ONE, None)
    house.now += 200
    house.sessions.enter(OTHER, None)
    house.now += 200
    house.sessions.close_idle()
    assert [house.closed, house.sessions.count] == [["one/None"], 1]


def test_a_stream_keeps_its_session_open(house: House) -> None:
    house.sessions.enter(ONE, None)
    house.now += 200
    assert house.stays["one/None"]()
    house.now += 200
    house.sessions.close_idle()
    assert house.closed == []


def test_a_full_server_replaces_the_session_that_is_idle_longest(house: House) -> None:
    house.readable["third"] = ALL
    house.sessions.enter(ONE, "a")
    house.now += 30
    house.sessions.enter(OTHER, "b")
    with pytest.raises(Full, match="2 people look already"):
        house.sessions.enter(Caller("third"), None)
    house.now += 40
    house.sessions.enter(Caller("third"), None)
    assert [house.closed, house.sessions.count] == [["one/a"], 2]


@pytest.mark.proves("security.md#the-page-for-many/sessions")
def test_a_user_with_many_sessions_gives_way_to_another_user() -> None:
    house = House(most=3)
    for scope in ("a", "b", "c"):
        house.sessions.enter(ONE, scope)
    house.sessions.enter(OTHER, None)
    assert house.closed == ["one/a"]


def test_a_user_has_a_few_sessions_whatever_their_tokens() -> None:
    house = House(most=32)
    house.readable |= {f"token {number}": ALL for number in range(MOST_OF_USER + 1)}
    house.users = dict.fromkeys(house.readable, "one user")
    for number in range(MOST_OF_USER + 1):
        house.sessions.enter(Caller(f"token {number}"), None)
    assert [house.closed, house.sessions.count] == [["token 0/None"], MOST_OF_USER]


@pytest.mark.proves("security.md#the-page-for-many/rights")
def test_a_user_without_rights_gets_no_session(house: House) -> None:
    house.readable["one"] = frozenset({"nodes"})
    for number in range(40):
        with pytest.raises(NothingToSee) as found:
            house.sessions.enter(ONE, f"namespace-{number}")
        # Asking once more for the name could fail.
        assert found.value.user
    assert [house.opened, house.sessions.count] == [[], 0]
    house.sessions.enter(OTHER, None)


@pytest.mark.proves("security.md#the-page-for-many/pages-open")
def test_a_user_has_a_few_pages_open_and_others_have_theirs() -> None:
    pages = OpenPages(2)
    close = pages.open("one")
    pages.open("one")
    with pytest.raises(TooManyPages, match="2 pages of yours"):
        pages.open("one")
    pages.open("other")
    close()
    close()
    pages.open("one")
    assert [pages.count("one"), pages.count("other")] == [2, 1]


def test_a_callers_key_does_not_contain_the_token() -> None:
    assert ONE.token not in ONE.key
    assert ONE.key != OTHER.key


class Moment:
    now = 1000.0


def test_a_refused_token_is_reviewed_once_in_a_while() -> None:
    moment = Moment()
    rejected_tokens = RejectedTokens(clock=lambda: moment.now)
    assert not rejected_tokens.is_refused(ONE, "10.0.0.1")
    rejected_tokens.count(ONE, "10.0.0.1")
    assert rejected_tokens.is_refused(ONE, "10.0.0.2")
    assert not rejected_tokens.is_refused(OTHER, "10.0.0.1")
    moment.now += REFUSED_SECONDS
    assert not rejected_tokens.is_refused(ONE, "10.0.0.1")


def test_an_address_with_many_refusals_is_rate_limited() -> None:
    moment = Moment()
    rejected_tokens = RejectedTokens(clock=lambda: moment.now)
    for number in range(AT_ONCE):
        assert not rejected_tokens.is_refused(Caller(f"made up {number}"), "10.0.0.1")
        rejected_tokens.count(Caller(f"made up {number}"), "10.0.0.1")
    with pytest.raises(TooMany) as caught:
        rejected_tokens.is_refused(OTHER, "10.0.0.1")
    assert not rejected_tokens.is_refused(OTHER, "10.0.0.2")
    moment.now += caught.value.seconds
    assert not rejected_tokens.is_refused(OTHER, "10.0.0.1")


def test_a_known_caller_is_trusted_for_a_while(house: House) -> None:
    house.sessions.enter(ONE, None)
    assert [house.known.knows(ONE), house.known.knows(OTHER)] == [True, False]
    house.now += TRUST_SECONDS
    assert not house.known.knows(ONE)
