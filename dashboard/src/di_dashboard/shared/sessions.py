"""Sessions of users: one watch each, limited in number, and closed when idle.

A session costs a watch of the API server, so only users who can list jobs get one, and a user with
several loses one to a user with fewer.
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
"""Seconds after the last request in which a session is not closed for another one."""


MOST_OF_USER: Final = 4
"""Maximum sessions of one user, over all tokens and namespaces."""


class Full(Exception):
    """All sessions are in use."""


class NothingToSee(Exception):
    """The caller, a `user`, has no permission to list the requested jobs."""

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
"""The caller's key, and the namespace."""

Open = Callable[[Caller, str | None, Rights, Callable[[], bool]], AbstractContextManager[Parts]]
"""Opens a session of a caller for one namespace or all; the function in it returns whether a stream
can continue.
"""


class Sessions:
    """Opens, keeps and closes sessions. Thread-safe.

    Args:
        most: maximum number of open sessions.
        idle_seconds: after which an unused session is closed.
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
        """Return the number of open sessions."""
        return len(self._rooms)

    def start(self) -> None:
        """Close idle sessions from now on, in a thread that ends with the process."""
        threading.Thread(target=self._run, daemon=True, name="sessions").start()

    def enter(self, caller: Caller, scope: str | None) -> Parts:
        """Return the resources of pages for a caller in a namespace, or in all.

        Raises:
            Unauthorized: the token is invalid or expired.
            ApiError: the API server does not respond.
            NothingToSee: the caller cannot list jobs there.
            Full: there is no free session.
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
        """Close idle sessions."""
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
        """Return the session to close for a further one of a user; None: there is a free one.

        Raises:
            Full: no other session is idle, and no user has more than this one would have.
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
        """Return an open and still permitted session, marked as used now."""
        with self._lock:
            room = self._rooms.get(key)
            if room is not None and rights.readable >= room.rights.readable:
                room.used = self._clock()
                return room
        # Data that the user can no longer read is dropped with the whole session.
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
