"""Follows the logs of some pods for one page, in bounded memory, until the page is closed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from di_cli.logs.read import Asked, lines_of
from di_kube.errors import ApiError
from di_kube.sync import SyncKubeClient

MOST_PODS: Final = 6
"""Maximum number of logs side by side."""
_WAITING: Final = 2000
"""Maximum number of lines that wait for a page; a slower page delays the reading."""
_BATCH: Final = 500
_SILENCE: Final = 20.0
"""Seconds without a line after which a log is requested again; a thread of a closed page
ends then.
"""
_PAUSE: Final = 2.0
"""Seconds until a log that has ended, or not begun, is read again: its container may restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A log, from the line after `since`; empty: from its last lines."""

    pod: str
    container: str
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of the log at this index among the requested ones."""

    place: int
    time: str
    text: str


class Tail:
    """Follows logs in threads, from `begin` to `leave`. Thread-safe.

    Args:
        lines: number of last lines to begin with.
        pause: sleeps for some seconds, or until the event is set.
    """

    def __init__(
        self,
        client: SyncKubeClient,
        namespace: str,
        wanted: Sequence[Wanted],
        *,
        lines: int,
        pause: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._lines = lines
        self._pause = pause
        self._left = threading.Event()
        self._changed = threading.Condition()
        self._waiting: deque[LogLine] = deque()
        self._wake: Callable[[], None] | None = None
        self._threads = [
            threading.Thread(target=self._follow, args=(place, each), daemon=True)
            for place, each in enumerate(wanted[:MOST_PODS])
        ]

    def begin(self) -> None:
        """Start to read."""
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        """End the threads soon."""
        with self._changed:
            self._left.set()
            self._changed.notify_all()

    def on_news(self, wake: Callable[[], None]) -> None:
        """Register a function for new lines; called at once if there are some."""
        with self._changed:
            self._wake = wake
            is_news = bool(self._waiting)
        if is_news:
            wake()

    def take(self) -> list[LogLine]:
        """Return the new lines, limited in number."""
        with self._changed:
            found = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            wake = self._wake if self._waiting else None
            self._changed.notify_all()
        if wake is not None:
            wake()
        return found

    def _follow(self, place: int, wanted: Wanted) -> None:
        last = wanted.since
        while not self._left.is_set():
            asked = Asked(
                container=wanted.container,
                follow=True,
                since_time=last or None,
                tail=None if last else self._lines,
            )
            try:
                found = lines_of(self._client, self._namespace, wanted.pod, asked, silence=_SILENCE)
                for at, text in found:
                    # A log requested since a time begins with the line of that time.
                    if at > last and not self._hand_over(LogLine(place=place, time=at, text=text)):
                        return
                    last = max(at, last)
            except ApiError:
                # It is silent, has not begun, or its node does not respond: that can change.
                pass
            self._pause(self._left, _PAUSE)

    def _hand_over(self, line: LogLine) -> bool:
        """Wait until fewer lines wait for the page; return False if the page is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._left.is_set() or len(self._waiting) < _WAITING)
            if self._left.is_set():
                return False
            self._waiting.append(line)
            wake = self._wake
        if wake is not None:
            wake()
        return True
