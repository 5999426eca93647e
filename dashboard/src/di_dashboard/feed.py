"""Who waits for news of what: one flag a listener, so that none is ever behind by more than one."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

MOST_LISTENERS: Final = 512
"""Pages that are told at once; each takes a thread."""


class TooMany(Exception):
    """So many listen already that one more is not told of anything."""


class Listener:
    """One that listens; one thread waits, any may tell."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self._news = threading.Event()

    def tell(self) -> None:
        """There is news; several before it looks are one."""
        self._news.set()

    def wait(self, seconds: float) -> bool:
        """Whether there is news, within so many seconds."""
        found = self._news.wait(seconds)
        self._news.clear()
        return found


class Feed:
    """Tells listeners by topic. Safe between threads."""

    def __init__(self, most: int = MOST_LISTENERS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._listeners: dict[str, set[Listener]] = {}
        self._count = 0

    @property
    def count(self) -> int:
        """How many listen."""
        return self._count

    def join(self, topics: Iterable[str]) -> Listener:
        """Begin to listen to some topics.

        Raises:
            TooMany: so many do already.
        """
        listener = Listener(topics)
        with self._lock:
            if self._count >= self._most:
                raise TooMany(f"{self._most} pages are open already; close some")
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
