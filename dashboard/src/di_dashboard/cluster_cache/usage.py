"""CPU and memory that pods use: read from metrics-server for a job page, and kept a while."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from di_cli.views.pods import name_of
from di_cli.views.top import used
from di_kube.errors import ApiError

Object = Mapping[str, Any]
Read = Callable[[str, str], Sequence[Object]]
Use = tuple[str, str]
"""Cores and memory, as text."""

_SECONDS: Final = 15.0
"""Interval at which metrics-server measures."""
_REFUSED_SECONDS: Final = 60.0
"""Seconds after which a refusal, or a metrics-server that does not exist, is tried again."""
_KEPT: Final = 256


class Usage:
    """Reads the use of jobs' pods. Thread-safe.

    Args:
        read: the metrics of the pods of a namespace's job.
        clock: monotonic seconds.
    """

    def __init__(self, read: Read, clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], tuple[float, Mapping[str, Use]]] = OrderedDict()

    def of(self, namespace: str, job: str) -> Mapping[str, Use]:
        """Return the use of a job's pods by name; empty if it is not measured or not readable."""
        key, now = (namespace, job), self._clock()
        with self._lock:
            until, found = self._kept.get(key, (now, {}))
        if now < until:
            return found
        try:
            found, seconds = {name_of(each): used(each) for each in self._read(*key)}, _SECONDS
        except ApiError:
            found, seconds = {}, _REFUSED_SECONDS
        with self._lock:
            self._kept[key] = (now + seconds, found)
            self._kept.move_to_end(key)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found
