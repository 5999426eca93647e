"""The newest world of the group, followed in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import di_orchestrator as di

MISSED_SECONDS = 30.0
"""Who is in no world for so long came when the others had finished: a group of which one has
succeeded takes nobody in."""


class Worlds:
    """Known to all threads.

    Args:
        on_new: called with the generation of each world, from the thread that follows them.
    """

    def __init__(self, on_new: Callable[[int], None]) -> None:
        self._on_new = on_new
        self._changed = threading.Condition()
        self._newest: di.World | None = None

    def follow(self, worlds: Iterable[di.World]) -> None:
        """Take in each world as it comes, until there are no more."""
        for world in worlds:
            with self._changed:
                self._newest = world
                self._changed.notify_all()
            self._on_new(world.generation)

    def is_over(self, generation: int) -> bool:
        """Whether there is another world by now."""
        with self._changed:
            return self._newest is None or self._newest.generation != generation

    def next(self, index: int, after: int, leaving: Callable[[], bool]) -> di.World | None:
        """The world of another generation that has this member; None: it is to leave, or there
        is none for it."""

        def found() -> bool:
            newest = self._newest
            return newest is not None and newest.generation != after and index in newest.members

        with self._changed:
            left = MISSED_SECONDS
            while not found() and not leaving():
                if not self._changed.wait(0.2) and self._newest is not None:
                    # Before the first world there are members to wait for; that takes its time.
                    left -= 0.2 if index not in self._newest.members else 0.0
                    if left <= 0:
                        return None
            return self._newest if found() else None
