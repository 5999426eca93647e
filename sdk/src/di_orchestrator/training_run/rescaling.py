"""Scale requests in the background, because di-server can take a minute."""

from __future__ import annotations

import threading
from collections.abc import Callable

from di_orchestrator.errors import DIError, Refused
from di_orchestrator.warnings_once import Warnings


class Rescaling:
    """Sends scale requests from a thread, one at a time; used by one thread.

    Args:
        scale: sends a number to di-server, and returns the new number.
        count: returns the wanted number at di-server; None: there is no such task.
    """

    def __init__(self, scale: Callable[[int], int], count: Callable[[], int | None]) -> None:
        self._scale = scale
        self._count = count
        self._thread: threading.Thread | None = None
        self._known: int | None = None
        self._granted: int | None = None
        self._warnings = Warnings()

    @property
    def is_asking(self) -> bool:
        """Return whether a response is outstanding, or was not taken yet."""
        return self._thread is not None

    def look(self) -> None:
        """Request the wanted number."""
        self._begin(lambda: self._is_news(None))

    def ask(self, now: int, wanted: int) -> None:
        """Request a new number; if it is refused, half the change, and so on.

        If the wanted number differs from the last known one (changed by an autoscaler, a person, or
        this program before a restart), the request returns that instead, because `wanted` was
        computed from the old number.
        """
        self._begin(lambda: self._run(now, wanted))

    def _begin(self, run: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=run, daemon=True, name="di-rescaling")
        self._thread.start()

    def is_settled(self, seconds: float = 0.0) -> bool:
        """Return whether the last request is answered, now or within `seconds`."""
        if self._thread is None:
            return False
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def take(self) -> int | None:
        """Return the new number once the request is answered; None: unchanged."""
        granted, self._granted, self._thread = self._granted, None, None
        return granted

    def _run(self, now: int, wanted: int) -> None:
        if self._is_news(now if self._known is None else self._known):
            return
        while wanted != now and not self._is_answered(wanted):
            # Probably a bound: a change within it is still useful.
            wanted = now + int((wanted - now) / 2)

    def _is_news(self, known: int | None) -> bool:
        """Return whether the wanted number differs from the known one, or di-server is
        unreachable.
        """
        try:
            present = self._count()
        except Refused:
            return False  # a di-server of before does not tell
        except DIError as error:
            self._warnings.say(str(error), kind=type(error).__name__)
            return True
        if present is None:
            return False
        self._known = present
        if present == known:
            return False
        self._granted = present
        return True

    def _is_answered(self, count: int) -> bool:
        """Return False if this number is refused."""
        try:
            self._known = self._granted = self._scale(count)
        except Refused as error:
            self._warnings.say(str(error), kind=str(error.status))
            return False
        except DIError as error:
            self._warnings.say(str(error), kind=type(error).__name__)
        return True
