"""A lock for each of any number of keys."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Lock:
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class Locks(Generic[K]):
    """Locks that exist while threads hold them or wait for them.

    A fixed number of locks, shared by the hashes of keys, would have some keys wait for others:
    among eight of 64 locks two are the same in a third of all cases.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[K, _Lock] = {}

    def __len__(self) -> int:
        """Return the number of keys whose lock is in use."""
        return len(self._locks)

    @contextmanager
    def hold(self, key: K, seconds: float, *, most_waiting: int | None = None) -> Iterator[bool]:
        """Hold the lock of a key; yields False if it was not free within `seconds`, and at once if
        `most_waiting` threads wait for it already.
        """
        with self._guard:
            found = self._locks.setdefault(key, _Lock())
            # One of the users has it.
            is_full = most_waiting is not None and found.users > most_waiting
            found.users += 1
        is_held = False
        try:
            is_held = found.lock.acquire(timeout=0.0 if is_full else seconds)
            yield is_held
        finally:
            if is_held:
                found.lock.release()
            with self._guard:
                found.users -= 1
                if not found.users:
                    del self._locks[key]
