"""Who waits for news of what, and how many pages of each user wait.

A listener has one flag, so that none is ever behind by more than one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

MOST_OF_USER: Final = 512
"""Of the one user of a page on their own machine; each takes a thread there."""


class Listener:
    """One that listens. Safe between threads."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self._lock = threading.Lock()
        self._is_news = False
        self._wake: Callable[[], None] | None = None

    def tell(self) -> None:
        """There is news; several before it is taken are one."""
        with self._lock:
            self._is_news = True
            wake = self._wake
        if wake is not None:
            wake()

    def on_news(self, wake: Callable[[], None]) -> None:
        """Call a function for each news from now on, and at once if there is some already."""
        with self._lock:
            self._wake = wake
            is_news = self._is_news
        if is_news:
            wake()

    def take(self) -> bool:
        """Return whether there was news since this was asked last."""
        with self._lock:
            found, self._is_news = self._is_news, False
        return found


class Feed:
    """Tells listeners by topic. Safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, set[Listener]] = {}
        self._count = 0

    @property
    def count(self) -> int:
        """How many listen."""
        return self._count

    def join(self, topics: Iterable[str]) -> Listener:
        """Begin to listen to some topics."""
        listener = Listener(topics)
        with self._lock:
            self._count += 1
            for topic in listener.topics:
                self._listeners.setdefault(topic, set()).add(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        """End to listen; whoever does not listen may as well."""
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
        """Tell all that listen to one of them."""
        with self._lock:
            found = [each for topic in topics for each in self._listeners.get(topic, ())]
        for listener in found:
            listener.tell()


class TooMany(Exception):
    """The user has as many open as one may."""


class OpenPages:
    """Counts streams by user, whatever tokens and namespaces they come with. Safe between threads.

    Args:
        most_of_user: streams that one user may have at once.
    """

    def __init__(self, most_of_user: int = MOST_OF_USER) -> None:
        self._most_of_user = most_of_user
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    def open(self, user: str) -> Callable[[], None]:
        """Count one more stream, and return how to count it out; that may be called more than once.

        Raises:
            TooMany: the user has as many open as one may.
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
        """Return how many streams a user has open."""
        with self._lock:
            return self._open[user]
