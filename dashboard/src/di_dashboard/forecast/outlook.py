"""When jobs that wait are expected to start, and what the allocator was told: found out beside the
pages, since it takes a second or two in a large cluster."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from di_cli.views.ends import End

SECONDS: Final = 15.0
"""For which an outlook is shown before it is made anew."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What can be told of what comes.

    Attributes:
        starts: by UID of a job that waits, after which end; None: when the allocator looks next.
        policy: of the allocator; empty: there is none, or nobody knows.
        arguments: of the policy.
        notes: what is missing, and why.
    """

    starts: Mapping[str, End | None] = field(default_factory=dict)
    policy: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Outlooks:
    """Makes one when somebody looks, in a thread, and tells when it is another one.

    Args:
        make: takes a second or two; what it raises counts as no outlook.
        tell: there is a new one.
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
        """The last one; a newer one is begun if it is old."""
        with self._lock:
            if not self._is_underway and self._clock() >= self._next:
                self._is_underway = True
                threading.Thread(target=self._renew, daemon=True, name="outlook").start()
            return self._last

    def _renew(self) -> None:
        try:
            found = self._make()
        except Exception as error:
            # Only what is expected is missing; who looks learns why.
            log.warning("what is expected cannot be told", exc_info=True)
            found = Outlook(notes=(f"what is expected cannot be told: {error}",))
        with self._lock:
            is_news = found != self._last
            self._last, self._is_underway = found, False
            self._next = self._clock() + SECONDS
        if is_news:
            self._tell()
