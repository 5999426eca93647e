"""The logs of some pods as they grow, for one page: in bounded memory, until it is left."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from di_api.kube.errors import ApiError
from di_api.kube.sync import SyncKubeClient
from di_cli.logs.read import Asked, lines_of

MOST_PODS: Final = 6
"""Side by side."""
_WAITING: Final = 2000
"""Lines that wait for a page; a page that is slower makes the reading wait."""
_BATCH: Final = 500
_SILENCE: Final = 20.0
"""Seconds without a line after which a log is asked for anew: who was left reads no longer."""
_PAUSE: Final = 2.0
"""Before a log that has ended, or not begun, is looked at again: its container may start anew."""
_BEAT: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A log, from the line after `since` on; empty: from its last lines on."""

    pod: str
    container: str
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line of the log of the pod of that place among those that are wanted."""

    place: int
    time: str
    text: str


class Tail:
    """Follows logs in threads. Leave it as a context manager, and they end.

    Args:
        lines: lines of the tail of a log from which nothing has been read.
        pause: sleeps so many seconds, or until the event is set.
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
        self._queue: queue.Queue[LogLine] = queue.Queue(maxsize=_WAITING)
        self._threads = [
            threading.Thread(target=self._follow, args=(place, each), daemon=True)
            for place, each in enumerate(wanted[:MOST_PODS])
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()

    def batches(self, beat: float = _BEAT) -> Iterator[list[LogLine]]:
        """Lines as they come, several at once; an empty batch after `beat` seconds without any."""
        while not self._left.is_set():
            try:
                found = [self._queue.get(timeout=beat)]
            except queue.Empty:
                yield []
                continue
            while len(found) < _BATCH:
                try:
                    found.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            yield found

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
                    # What is asked for since a time begins with the line of that time.
                    if at > last and not self._hand_over(LogLine(place=place, time=at, text=text)):
                        return
                    last = max(at, last)
            except ApiError:
                # It is silent, has not begun, or its node does not answer: that changes.
                pass
            self._pause(self._left, _PAUSE)

    def _hand_over(self, line: LogLine) -> bool:
        """Wait until there is room; False if nobody reads any more."""
        while not self._left.is_set():
            try:
                self._queue.put(line, timeout=1.0)
            except queue.Full:
                continue
            return True
        return False
