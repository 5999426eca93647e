"""The process group of a task, followed from a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from di_orchestrator.errors import DIError, Refused
from di_orchestrator.job import World
from di_orchestrator.warnings_once import Warnings

AGAIN_SECONDS = 5.0
"""Seconds until the group is followed again after an error."""
_FINAL = (404, 422)
"""Statuses for a task without a group, and for a di-server of before groups: neither changes."""


class FollowedGroup:
    """Knows whether a group has changed since it was first formed; thread-safe, never waits.

    Args:
        worlds: yields the present world and each later one, as `Client.watch_worlds`.
    """

    def __init__(
        self, worlds: Callable[[], Iterator[World]], *, again: float = AGAIN_SECONDS
    ) -> None:
        self._worlds = worlds
        self._again = again
        self._first: int | None = None
        self._has_changed = False
        self._ended = threading.Event()
        self._warnings = Warnings()
        threading.Thread(target=self._run, daemon=True, name="di-group").start()

    @property
    def has_changed(self) -> bool:
        """Return whether there is a world of another generation than the first one."""
        return self._has_changed

    def close(self) -> None:
        """Stop after the present request."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                for world in self._worlds():
                    self._note(world)
                    if self._ended.is_set():
                        return
            except DIError as error:
                self._warnings.say(str(error), kind=type(error).__name__)
                if isinstance(error, Refused) and error.status in _FINAL:
                    return
            self._ended.wait(self._again)

    def _note(self, world: World) -> None:
        if not world.is_formed:
            return
        if self._first is None:
            self._first = world.generation
        self._has_changed = world.generation != self._first
