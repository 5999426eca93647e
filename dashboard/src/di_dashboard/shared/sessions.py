"""What each of those who look has open: one watch each, in bounds, and gone when they are.

A place costs a watch of the API server, so only who may list jobs gets one, and who has several
gives way to who has fewer.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from di_dashboard.pages.parts import Parts
from di_dashboard.shared.rights import Caller, Known, Rights
from di_kube.errors import ApiError

_LOOK_SECONDS: Final = 15.0
_SPARED_SECONDS: Final = 60.0
"""Who has looked within that time is not put out for another."""


MOST_OF_USER: Final = 4
"""Places of one user, whatever tokens and namespaces they come with."""


class Full(Exception):
    """So many look already that there is no place for one more."""


class NothingToSee(Exception):
    """The caller, a `user`, may not list the jobs that are asked for."""

    def __init__(self, user: str) -> None:
        super().__init__(f"{user} may not list these jobs")
        self.user = user


@dataclass(eq=False, slots=True)
class _Room:
    parts: Parts
    opened: AbstractContextManager[Parts]
    rights: Rights
    used: float


_Key = tuple[str, str | None]
"""A caller's, and the namespace."""

Open = Callable[[Caller, str | None, Rights, Callable[[], bool]], AbstractContextManager[Parts]]
"""Opens one for a caller, of a namespace or all; what is asked whether a stream may go on."""


class Sessions:
    """Opens, keeps and closes them. Safe between threads.

    Args:
        most: that are open at once.
        idle_seconds: after which one that nobody looks at is closed.
    """

    def __init__(
        self,
        opening: Open,
        known: Known,
        *,
        most: int,
        idle_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._opening = opening
        self._known = known
        self._most = most
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._rooms: dict[_Key, _Room] = {}

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._rooms)

    def start(self) -> None:
        """Close what nobody looks at from now on, in a thread that ends with the process."""
        threading.Thread(target=self._run, daemon=True, name="sessions").start()

    def enter(self, caller: Caller, scope: str | None) -> Parts:
        """What a caller sees of a namespace, or of all.

        Raises:
            Unauthorized: the token is none, or not any more.
            ApiError: the API server does not answer.
            NothingToSee: they may not list jobs there.
            Full: there is no place.
        """
        key = (caller.key, scope)
        try:
            rights = self._known.of(caller, scope)
        except ApiError:
            self._close([key])
            raise
        if not rights.has_jobs:
            self._close([key])
            raise NothingToSee(rights.user)
        room = self._used(key, rights)
        return room.parts if room is not None else self._open(key, caller, scope, rights)

    def close_idle(self) -> None:
        """Close those that nobody looks at."""
        until = self._clock() - self._idle_seconds
        with self._lock:
            idle = [key for key, room in self._rooms.items() if room.used < until]
        self._close(idle)

    def _open(self, key: _Key, caller: Caller, scope: str | None, rights: Rights) -> Parts:
        left: list[_Room] = []
        try:
            with self._lock:
                if (room := self._rooms.get(key)) is None:
                    if (out := self._in_the_way(rights.user)) is not None:
                        left.append(self._rooms.pop(out))
                    opened = self._opening(
                        caller, scope, rights, lambda: self._may_stay(caller, scope)
                    )
                    room = _Room(opened.__enter__(), opened, rights, self._clock())
                    self._rooms[key] = room
                return room.parts
        finally:
            for each in left:
                each.opened.__exit__(None, None, None)

    def _in_the_way(self, user: str) -> _Key | None:
        """Return the place to close for one more of a user; None: there is space.

        Raises:
            Full: no other place is idle, and no user has more than this one would have.
        """
        by_user = defaultdict[str, list[_Key]](list)
        for key in sorted(self._rooms, key=lambda key: self._rooms[key].used):
            by_user[self._rooms[key].rights.user].append(key)
        own = by_user[user]
        if len(own) >= MOST_OF_USER:
            return own[0]
        if len(self._rooms) < self._most:
            return None
        most = max(by_user.values(), key=len)
        if len(most) > len(own) + 1:
            return most[0]
        longest = min(self._rooms, key=lambda key: self._rooms[key].used)
        if self._clock() - self._rooms[longest].used >= _SPARED_SECONDS:
            return longest
        if own:
            return own[0]
        raise Full(f"{self._most} people look already; try again in a minute")

    def _may_stay(self, caller: Caller, scope: str | None) -> bool:
        key = (caller.key, scope)
        try:
            return self._used(key, self._known.of(caller, scope)) is not None
        except ApiError:
            self._close([key])
            return False

    def _used(self, key: _Key, rights: Rights) -> _Room | None:
        """One that is open and may stay so, used now."""
        with self._lock:
            room = self._rooms.get(key)
            if room is not None and rights.readable >= room.rights.readable:
                room.used = self._clock()
                return room
        # What somebody may not read any more is forgotten with all the rest.
        self._close([key])
        return None

    def _close(self, keys: list[_Key]) -> None:
        with self._lock:
            found = [room for key in keys if (room := self._rooms.pop(key, None)) is not None]
        for room in found:
            room.opened.__exit__(None, None, None)

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_SECONDS)
            self.close_idle()
