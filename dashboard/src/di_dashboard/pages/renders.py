"""Many who look at one page are shown one rendering of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class _Render:
    """One that has not begun yet, or whose end its askers wait for."""

    ended: threading.Event = field(default_factory=threading.Event)
    page: str = ""
    error: Exception | None = None
    askers: int = 0


class Renders:
    """Renders a page once for all that ask for it before its rendering has begun.

    A change tells all pages of it at once, and all ask within a moment. Of one page one rendering
    is under way; whoever asks meanwhile is given the next one, so nobody is ever shown a state from
    before they asked. Nothing is kept once it has been shown. Safe between threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[str, _Render] = {}
        self._under_way: dict[str, _Render] = {}

    def get(self, key: str, render: Callable[[], str]) -> str:
        """The page of that key; raises what `render` raises, to all that share it."""
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
        """How many wait for a rendering of that key that has not begun."""
        with self._lock:
            found = self._next.get(key)
            return found.askers if found else 0

    def _run(self, key: str, mine: _Render, render: Callable[[], str]) -> None:
        with self._lock:
            # Whoever asks from now on may want what this one does not know.
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
