"""The page for many: who is let in, what is kept open for them, and when it is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest

from di_api.kube.errors import ApiError, Unauthorized, Unavailable
from di_dashboard.parts import Parts
from di_dashboard.shared.rights import AGAIN_SECONDS, TRUST_SECONDS, Caller, Known, Rights
from di_dashboard.shared.rooms import Full, Rooms
from di_dashboard.shared.strangers import AT_ONCE, REFUSED_SECONDS, Strangers, TooMany

ALL = frozenset({"dijobs", "pods", "events", "nodes"})
ONE, OTHER = Caller("one"), Caller("other")


@dataclass
class House:
    """Rooms of callers whose rights a test decides."""

    most: int = 2
    now: float = 1000.0
    readable: dict[str, frozenset[str]] = field(default_factory=lambda: {"one": ALL, "other": ALL})
    fails: ApiError | None = None
    asked: int = 0
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    stays: dict[str, Callable[[], bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known = Known(self._find, clock=lambda: self.now)
        self.rooms = Rooms(
            self._open, self.known, most=self.most, idle_seconds=300, clock=lambda: self.now
        )

    def _find(self, caller: Caller, scope: str | None) -> Rights:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        if caller.token not in self.readable:
            raise Unauthorized(kind="SelfSubjectReview", code=401)
        return Rights(user=caller.token, readable=self.readable[caller.token])

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


def test_who_comes_again_finds_what_was_open(house: House) -> None:
    first = house.rooms.enter(ONE, None)
    assert [house.rooms.enter(ONE, None), house.rooms.enter(Caller("one"), None)] == [first] * 2
    assert [house.opened, house.asked] == [["one/None"], 1]


def test_nobody_is_shown_what_another_has_open(house: House) -> None:
    assert house.rooms.enter(ONE, None) != house.rooms.enter(OTHER, None)
    assert house.opened == ["one/None", "other/None"]


def test_each_namespace_is_open_for_itself(house: House) -> None:
    assert house.rooms.enter(ONE, "a") != house.rooms.enter(ONE, "b")


def test_a_token_that_is_withdrawn_closes_what_it_had_open(house: House) -> None:
    house.rooms.enter(ONE, None)
    del house.readable["one"]
    house.now += AGAIN_SECONDS + 1
    with pytest.raises(Unauthorized):
        house.rooms.enter(ONE, None)
    assert house.closed == ["one/None"]


def test_a_page_that_is_told_of_changes_ends_with_its_token(house: House) -> None:
    house.rooms.enter(ONE, None)
    stay = house.stays["one/None"]
    assert stay()
    del house.readable["one"]
    house.now += AGAIN_SECONDS + 1
    assert not stay()
    assert [house.closed, house.rooms.count, stay()] == [["one/None"], 0, False]


def test_what_may_not_be_read_any_more_is_forgotten(house: House) -> None:
    first = house.rooms.enter(ONE, None)
    house.readable["one"] = ALL - {"pods"}
    house.now += AGAIN_SECONDS + 1
    assert house.rooms.enter(ONE, None) == first
    assert [house.opened, house.closed] == [["one/None"] * 2, ["one/None"]]


def test_a_right_more_closes_nothing(house: House) -> None:
    house.readable["one"] = ALL - {"pods"}
    house.rooms.enter(ONE, None)
    house.readable["one"] = ALL
    house.now += AGAIN_SECONDS + 1
    house.rooms.enter(ONE, None)
    assert house.closed == []


def test_an_api_server_that_is_away_is_forgiven_for_a_while(house: House) -> None:
    house.rooms.enter(ONE, None)
    house.fails = Unavailable(kind="SelfSubjectReview", code=503)
    house.now += AGAIN_SECONDS + 1
    house.rooms.enter(ONE, None)
    house.now += TRUST_SECONDS
    with pytest.raises(Unavailable):
        house.rooms.enter(ONE, None)
    assert house.closed == ["one/None"]


def test_what_nobody_looks_at_is_closed(house: House) -> None:
    house.rooms.enter(ONE, None)
    house.now += 200
    house.rooms.enter(OTHER, None)
    house.now += 200
    house.rooms.close_idle()
    assert [house.closed, house.rooms.count] == [["one/None"], 1]


def test_a_stream_keeps_it_open(house: House) -> None:
    house.rooms.enter(ONE, None)
    house.now += 200
    assert house.stays["one/None"]()
    house.now += 200
    house.rooms.close_idle()
    assert house.closed == []


def test_one_too_many_waits_until_somebody_has_left(house: House) -> None:
    house.rooms.enter(ONE, "a")
    house.now += 30
    house.rooms.enter(ONE, "b")
    with pytest.raises(Full, match="2 people look already"):
        house.rooms.enter(OTHER, None)
    house.now += 40
    house.rooms.enter(OTHER, None)
    assert [house.closed, house.rooms.count] == [["one/a"], 2]


def test_a_caller_is_known_by_what_the_token_cannot_be_had_from() -> None:
    assert ONE.token not in ONE.key
    assert ONE.key != OTHER.key


class Moment:
    now = 1000.0


def test_a_token_that_was_refused_costs_one_review_in_a_while() -> None:
    strangers = Strangers(clock=lambda: 1000.0)
    assert not strangers.is_refused(ONE, "10.0.0.1")
    strangers.count(ONE, "10.0.0.1")
    assert strangers.is_refused(ONE, "10.0.0.2")
    assert not strangers.is_refused(OTHER, "10.0.0.1")


def test_it_is_looked_at_again_later() -> None:
    moment = Moment()
    strangers = Strangers(clock=lambda: moment.now)
    strangers.count(ONE, "10.0.0.1")
    moment.now += REFUSED_SECONDS
    assert not strangers.is_refused(ONE, "10.0.0.1")


def test_an_address_of_many_refusals_waits_and_no_other_does() -> None:
    moment = Moment()
    strangers = Strangers(clock=lambda: moment.now)
    for number in range(AT_ONCE):
        assert not strangers.is_refused(Caller(f"made up {number}"), "10.0.0.1")
        strangers.count(Caller(f"made up {number}"), "10.0.0.1")
    with pytest.raises(TooMany) as caught:
        strangers.is_refused(OTHER, "10.0.0.1")
    assert not strangers.is_refused(OTHER, "10.0.0.2")
    moment.now += caught.value.seconds
    assert not strangers.is_refused(OTHER, "10.0.0.1")


def test_who_is_known_is_no_stranger(house: House) -> None:
    house.rooms.enter(ONE, None)
    assert [house.known.knows(ONE), house.known.knows(OTHER)] == [True, False]
    house.now += TRUST_SECONDS
    assert not house.known.knows(ONE)
