"""Log tails of unhealthy pods, read once for each of their changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

from di_api.explain.facts import is_healthy
from di_api.field_error import mapping
from di_api.pods.main_container import all_statuses
from di_cli.views.pods import in_order, name_of
from di_dashboard.history.seen import Object

_PODS: Final = 3
"""Maximum number of pods of a job whose logs are read."""
_KEPT: Final = 512
Read = Callable[[Object], list[str]]


class LastLines:
    """Reads log tails from the API server, and caches them. Thread-safe."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], list[str]] = OrderedDict()

    def of(self, pods: Iterable[Object]) -> dict[str, list[str]]:
        """Return the log tails of the first unhealthy pods, by pod name."""
        unwell = [pod for pod in in_order(pods) if not is_healthy(pod)][:_PODS]
        found = {name_of(pod): self._lines(pod) for pod in unwell}
        return {name: lines for name, lines in found.items() if lines}

    def _lines(self, pod: Object) -> list[str]:
        key = _state(pod)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        lines = self._read(pod)
        with self._lock:
            self._kept[key] = lines
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return lines


def _state(pod: Object) -> tuple[Any, ...]:
    """Return the key of a pod's log tail: its UID, and the starts and ends of its containers."""
    status = mapping(pod.get("status"))
    runs = [
        (each.get("name"), each.get("restartCount"), *mapping(each.get("state")))
        for each in all_statuses(pod)
    ]
    return (mapping(pod.get("metadata")).get("uid"), status.get("phase"), *runs)
