"""Requests that wait for news of members: which are answered, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from di_server.members.board import Answer
from di_server.members.entry import LIFETIME, Entry
from di_server.members.shared import REST_FOR_EACH, REST_SECONDS, Members, Watched
from tests.unit.server.fakes import Clock
from tests.unit.server.members.test_board import entry, shown


@dataclass
class World:
    clock: Clock = field(default_factory=Clock)
    dead: set[str] = field(default_factory=set)
    told: list[Answer] = field(default_factory=list)

    def members(self, **bounds: int) -> Members:
        return Members(lives=self.lives, clock=self.clock, now=self.clock.wall, **bounds)

    def lives(self, each: Entry) -> bool:
        return each.pod_uid not in self.dead


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def members(world: World) -> Members:
    return world.members()


def known(members: Members, task: str | None = None, job: str = "job", **more: Any) -> Watched:
    """Waits for another state than that of now."""
    now = members.answer(Watched(job_uid=job, task=task, known="", changes=False)).generation
    return Watched(job_uid=job, task=task, known=now, **{"changes": False, **more})


def test_waiting_requests_are_answered_by_the_next_step(members: Members, world: World) -> None:
    members.put(entry("a-0"))
    members.step()
    told: dict[str, list[Answer]] = {"all": [], "changes": [], "other": []}
    members.subscribe(known(members), told["all"].append)
    members.subscribe(known(members), told["all"].append)
    members.subscribe(known(members, changes=True), told["changes"].append)
    members.subscribe(known(members, "b"), told["other"].append)
    members.put(entry("a-1"))
    assert not any(told.values())
    members.step()
    assert [list(shown(answer)) for answer in told["all"]] == [["a-0", "a-1"]] * 2
    assert [list(shown(answer)) for answer in told["changes"]] == [["a-1"]]
    assert not told["other"]
    assert members.waiting == 1
    # Once.
    members.put(entry("a-2"))
    world.clock.sleep(1)
    members.step()
    assert [len(each) for each in told.values()] == [2, 1, 0]


def test_a_request_for_an_old_generation_is_answered_at_once(
    members: Members, world: World
) -> None:
    watched = known(members)
    members.put(entry())
    members.subscribe(watched, world.told.append)
    assert [list(shown(answer)) for answer in world.told] == [["a-0"]]
    assert members.waiting == 0


def test_a_heartbeat_answers_no_request_and_an_expiry_does(members: Members, world: World) -> None:
    members.put(entry())
    members.subscribe(known(members), world.told.append)
    for version in (2, 3):
        world.clock.sleep(LIFETIME - 1)
        members.put(entry(version=version))
        members.step()
    assert not world.told
    world.clock.sleep(LIFETIME)
    members.step()
    assert [shown(answer) for answer in world.told] == [{}]


def test_a_deleted_pod_answers_waiting_requests(members: Members, world: World) -> None:
    members.put(entry())
    members.subscribe(known(members), world.told.append)
    world.dead.add("uid-a-0")
    members.on_pod("DELETED", {"metadata": {"uid": "uid-a-0"}})
    members.step()
    assert [shown(answer) for answer in world.told] == [{}]


def test_a_client_that_leaves_is_not_answered(members: Members, world: World) -> None:
    leave = members.subscribe(known(members), world.told.append)
    members.subscribe(known(members), lambda _: None)
    leave()
    leave()
    assert members.waiting == 1
    members.put(entry())
    members.step()
    assert not world.told
    leave()
    assert members.waiting == 0


def test_changes_wait_until_answered_clients_may_have_returned(
    members: Members, world: World
) -> None:
    count = 100
    for _ in range(count):
        members.subscribe(known(members), lambda _: None)
    members.put(entry("a-0"))
    members.step()
    members.subscribe(known(members), world.told.append)
    members.put(entry("a-1"))
    # Requests about another job are answered meanwhile.
    members.subscribe(known(members, job="other"), world.told.append)
    members.put(entry("x-0", job_uid="other"))
    assert members.step() == pytest.approx(REST_FOR_EACH * count)
    assert [list(shown(answer)) for answer in world.told] == [["x-0"]]
    world.clock.sleep(REST_FOR_EACH * count)
    assert members.step() > 0
    assert [list(shown(answer)) for answer in world.told[1:]] == [["a-0", "a-1"]]
    members.put(entry("a-2"))
    assert members.step() == pytest.approx(REST_SECONDS)


def test_requests_above_the_bound_are_answered_at_once(world: World) -> None:
    members = world.members(places=3, places_of_job=2)
    for _ in range(2):
        members.subscribe(known(members), lambda _: None)
    members.subscribe(known(members), world.told.append)
    assert len(world.told) == 1
    members.subscribe(known(members, job="other"), lambda _: None)
    members.subscribe(known(members, job="third"), world.told.append)
    assert len(world.told) == 2
    # The places are free again once they were told.
    members.put(entry())
    members.step()
    assert members.waiting == 1
    members.subscribe(known(members), world.told.append)
    assert (members.waiting, len(world.told)) == (2, 2)


def test_peers_are_notified_of_entries_at_once_but_not_of_heartbeats(
    members: Members, world: World
) -> None:
    news = members.follow()
    members.put(entry())
    assert news.is_set()
    news.clear()
    members.put(entry(version=2))
    members.merge("peer", [(entry("a-1"), 0.0)])
    assert not news.is_set()
    members.unfollow(news)
    members.put(entry("a-2"))
    assert not news.is_set()


def test_an_entry_of_a_peer_is_as_old_as_the_peer_reports(members: Members, world: World) -> None:
    members.merge("peer", [(entry("a-0"), LIFETIME), (entry("a-1"), LIFETIME - 1)])
    assert list(shown(members.answer(known(members)))) == ["a-1"]
    world.clock.sleep(1)
    members.step()
    assert shown(members.answer(known(members))) == {}
