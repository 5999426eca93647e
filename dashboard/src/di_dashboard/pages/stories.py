"""Stories of jobs from the history, parsed once for each response."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final
from urllib.parse import quote

from di_dashboard.history.kept import Kept, Object
from di_dashboard.views.story import Story, story_of

_MOST: Final = 64


def path_of(namespace: str, name: str) -> str:
    """Return the path of a job below `/v1` of the history."""
    return f"/jobs/{quote(namespace, safe='')}/{quote(name, safe='')}"


class Stories:
    """Requests both parts of a story at once. Thread-safe."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._read: OrderedDict[tuple[str, str, str], tuple[Object, Object, Story]] = OrderedDict()

    def of(self, namespace: str, name: str, uid: str, topic: str = "") -> tuple[Story, str]:
        """Return the story of a job, and a sentence about the error, if there is one.

        Args:
            uid: of the job; empty: the last one with that name.
            topic: of the page that is notified of a late response.
        """
        path = path_of(namespace, name)
        query = {"uid": uid} if uid else {}
        # Started before the other response is awaited.
        self._kept.begin(namespace, f"{path}/series", topic, **query)
        told = self._kept.get(namespace, path, topic, **query)
        series = self._kept.get(namespace, f"{path}/series", topic, **query)
        key = (namespace, name, uid)
        with self._lock:
            known = self._read.get(key)
        if known is None or known[0] is not told.value or known[1] is not series.value:
            known = (told.value, series.value, story_of(told.value, series.value))
            with self._lock:
                self._read[key] = known
                self._read.move_to_end(key)
                while len(self._read) > _MOST:
                    self._read.popitem(last=False)
        return known[2], told.note or series.note
