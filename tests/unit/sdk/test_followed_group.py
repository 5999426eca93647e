"""Whether a group has changed, as a program in its loop asks."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

import di_orchestrator as di
from di_orchestrator.errors import Refused, Unreachable
from di_orchestrator.followed_group import FollowedGroup
from tests.waiting import wait_until


def world(generation: int, *, formed: bool = True) -> di.World:
    return di.World(generation, formed, (0, 1), "x")


class Worlds:
    """Worlds that a test yields one after the other, and errors that it raises."""

    def __init__(self) -> None:
        self.coming: queue.Queue[di.World | Exception] = queue.Queue()
        self.followed = 0

    def __call__(self) -> Iterator[di.World]:
        self.followed += 1
        while True:
            found = self.coming.get(timeout=60)
            if isinstance(found, Exception):
                raise found
            yield found

    def are_read(self, *worlds: di.World | Exception) -> None:
        """Put worlds, and one more that is like the last: once that is taken, all are read."""
        for each in worlds:
            self.coming.put(each)
        wait_until(self.coming.empty)


@pytest.mark.proves("sdk.md#reference/di-group-changed-task-str-none-none-bool")
def test_a_group_changes_with_the_next_formed_world() -> None:
    worlds = Worlds()
    found = FollowedGroup(worlds)
    forming, first = world(1, formed=False), world(2)
    worlds.are_read(forming, first, first)
    assert not found.has_changed
    worlds.are_read(world(3, formed=False), world(3, formed=False))
    assert not found.has_changed
    worlds.coming.put(world(4))
    wait_until(lambda: found.has_changed)
    found.close()
    worlds.coming.put(world(4))


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("away"),
        Refused("GET /x", 401, "the token does not hold"),
        Refused("GET /x", 500, "internal error"),
    ],
)
def test_a_group_is_followed_again_after_an_error(error: di.DIError) -> None:
    worlds = Worlds()
    found = FollowedGroup(worlds, again=0.001)
    for each in (world(2), error, world(3)):
        worlds.coming.put(each)
    wait_until(lambda: found.has_changed)
    assert worlds.followed == 2
    found.close()
    worlds.coming.put(world(3))


def test_a_task_without_a_group_never_changes(caplog: pytest.LogCaptureFixture) -> None:
    worlds = Worlds()
    found = FollowedGroup(worlds, again=0.001)
    worlds.coming.put(Refused("GET /x", 422, "no such task"))
    wait_until(lambda: bool(caplog.records))
    assert (found.has_changed, worlds.followed) == (False, 1)


def test_outside_a_job_no_group_changes() -> None:
    assert not di.group_changed("ps")
