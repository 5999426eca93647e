"""Expected starts of waiting jobs and the allocator's settings, computed in the background because
it takes a second or two in a large cluster.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from di_cli.views.ends import End

SECONDS: Final = 15.0
"""Seconds for which a forecast is shown before a new one is computed."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The forecast.

    Attributes:
        starts: by UID of a waiting job, the end after which it starts; None: at the allocator's
            next round.
        policy: name of the allocation policy; empty: there is none, or it is unknown.
        arguments: of the policy.
        notes: missing data, and why.
    """

    starts: Mapping[str, End | None] = field(default_factory=dict)
    policy: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Outlooks:
    """Computes forecasts in a thread, on demand, and notifies about changes.

    Args:
        make: takes a second or two; after an error there is no forecast.
        tell: called for each new forecast.
    """

    def __init__(
        self,
        make: Callable[[], Outlook],
        *,
        tell: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._make = make
        self._tell = tell
        self._clock = clock
        self._lock = threading.Lock()
        self._last = Outlook()
        self._next = 0.0
        self._is_underway = False

    def latest(self) -> Outlook:
        """Return the last forecast; starts to compute a new one if it is old."""
        with self._lock:
            if not self._is_underway and self._clock() >= self._next:
                self._is_underway = True
                threading.Thread(target=self._renew, daemon=True, name="outlook").start()
            return self._last

    def _renew(self) -> None:
        try:
            found = self._make()
        except Exception as error:
            # Only the forecast is missing; the page shows the cause.
            log.warning("what is expected cannot be told", exc_info=True)
            found = Outlook(notes=(f"what is expected cannot be told: {error}",))
        with self._lock:
            is_news = found != self._last
            self._last, self._is_underway = found, False
            self._next = self._clock() + SECONDS
        if is_news:
            self._tell()
