"""Shared rendering: concurrent requests for a page get the same result."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class _Render:
    """A rendering that has not begun, or that requests wait for."""

    ended: threading.Event = field(default_factory=threading.Event)
    page: str = ""
    error: Exception | None = None
    askers: int = 0


class Renders:
    """Renders a page once for all requests that arrive before the rendering begins.

    A change notifies all pages at once, and all reload within a moment. One rendering of a page is
    under way at a time; requests that arrive meanwhile get the next one, so no result is older than
    its request. Results are not cached. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[str, _Render] = {}
        self._under_way: dict[str, _Render] = {}

    def get(self, key: str, render: Callable[[], str]) -> str:
        """Return the page of that key; all requests that share it get the errors of `render`."""
        with self._lock:
            mine = self._next.setdefault(key, _Render())
            mine.askers += 1
            is_first, before = mine.askers == 1, self._under_way.get(key)
        if is_first:
            if before is not None:
                before.ended.wait()
            self._run(key, mine, render)
        else:
            mine.ended.wait()
        if mine.error is not None:
            raise mine.error
        return mine.page

    def waiting(self, key: str) -> int:
        """Return the number of requests that wait for the next rendering of that key."""
        with self._lock:
            found = self._next.get(key)
            return found.askers if found else 0

    def _run(self, key: str, mine: _Render, render: Callable[[], str]) -> None:
        with self._lock:
            # Later requests may need data that this rendering has not read.
            del self._next[key]
            self._under_way[key] = mine
        try:
            mine.page = render()
        except Exception as error:
            mine.error = error
        finally:
            with self._lock:
                del self._under_way[key]
            mine.ended.set()
