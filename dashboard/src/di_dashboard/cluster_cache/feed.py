"""Listeners of changes by topic, and the number of open pages of each user.

A listener has one flag, so it is never behind by more than one notification.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

MOST_OF_USER: Final = 512
"""Maximum for the user of a local dashboard; each page occupies a thread there."""


class Listener:
    """A listener of changes. Thread-safe."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self._lock = threading.Lock()
        self._is_news = False
        self._wake: Callable[[], None] | None = None

    def tell(self) -> None:
        """Notify the listener; several notifications before `take` count as one."""
        with self._lock:
            self._is_news = True
            wake = self._wake
        if wake is not None:
            wake()

    def on_news(self, wake: Callable[[], None]) -> None:
        """Register a function for each notification from now on; called at once if one is
        pending.
        """
        with self._lock:
            self._wake = wake
            is_news = self._is_news
        if is_news:
            wake()

    def take(self) -> bool:
        """Return whether there was a notification since the last call."""
        with self._lock:
            found, self._is_news = self._is_news, False
        return found


class Feed:
    """Notifies listeners by topic. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, set[Listener]] = {}
        self._count = 0

    @property
    def count(self) -> int:
        """Return the number of listeners."""
        return self._count

    def join(self, topics: Iterable[str]) -> Listener:
        """Return a new listener of some topics."""
        listener = Listener(topics)
        with self._lock:
            self._count += 1
            for topic in listener.topics:
                self._listeners.setdefault(topic, set()).add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """Remove a listener; has no effect on one that was removed before."""
        with self._lock:
            for topic in listener.topics:
                found = self._listeners.get(topic, set())
                if listener not in found:
                    return
                found.discard(listener)
                if not found:
                    del self._listeners[topic]
            self._count -= 1

    def publish(self, topics: Iterable[str]) -> None:
        """Notify all listeners of one of the topics."""
        with self._lock:
            found = [each for topic in topics for each in self._listeners.get(topic, ())]
        for listener in found:
            listener.tell()


class TooMany(Exception):
    """The user has the maximum number of open pages."""


class OpenPages:
    """Counts open streams by user, over all tokens and namespaces. Thread-safe.

    Args:
        most_of_user: maximum number of streams of one user.
    """

    def __init__(self, most_of_user: int = MOST_OF_USER) -> None:
        self._most_of_user = most_of_user
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    def open(self, user: str) -> Callable[[], None]:
        """Count a new stream, and return a function that ends the count, which can be called
        repeatedly.

        Raises:
            TooMany: the user has the maximum number.
        """
        with self._lock:
            if self._open[user] >= self._most_of_user:
                raise TooMany(
                    f"{self._most_of_user} pages of yours are open already; close some of them"
                )
            self._open[user] += 1
        is_open = True

        def close() -> None:
            nonlocal is_open
            with self._lock:
                if is_open:
                    is_open = False
                    self._open[user] -= 1
                    if not self._open[user]:
                        del self._open[user]

        return close

    def count(self, user: str) -> int:
        """Return the number of a user's open streams."""
        with self._lock:
            return self._open[user]
