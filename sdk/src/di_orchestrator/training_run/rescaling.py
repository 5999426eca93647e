"""Another number of collectors, asked for while training goes on: di-server may take a minute."""

from __future__ import annotations

import threading
from collections.abc import Callable

from di_orchestrator.errors import DIError, Refused
from di_orchestrator.warnings_once import Warnings


class Rescaling:
    """Asks from a thread, one number at a time; for one thread that uses it.

    Args:
        scale: asks di-server for so many, and returns how many there are to be.
        count: asks it how many there are to be; None: of no such task.
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
        """Whether an answer is awaited, or not taken yet."""
        return self._thread is not None

    def look(self) -> None:
        """Ask how many there are to be."""
        self._begin(lambda: self._is_news(None))

    def ask(self, now: int, wanted: int) -> None:
        """Ask for so many; of a number that is refused, for half the change, and so on.

        If there are to be others than it was told last (an autoscaler, a person, this program
        before it was started again), it learns that instead: what is wanted was reckoned of those.
        """
        self._begin(lambda: self._run(now, wanted))

    def _begin(self, run: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=run, daemon=True, name="di-rescaling")
        self._thread.start()

    def is_settled(self, seconds: float = 0.0) -> bool:
        """Whether what was asked last is answered by now, or within so many seconds."""
        if self._thread is None:
            return False
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def take(self) -> int | None:
        """How many there are to be, once it is settled; None: as before."""
        granted, self._granted, self._thread = self._granted, None, None
        return granted

    def _run(self, now: int, wanted: int) -> None:
        if self._is_news(now if self._known is None else self._known):
            return
        while wanted != now and not self._is_answered(wanted):
            # A bound, most likely: what is within it is still worth having.
            wanted = now + int((wanted - now) / 2)

    def _is_news(self, known: int | None) -> bool:
        """Whether there are to be others than is known, or di-server is away."""
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
        """False if so many are refused."""
        try:
            self._known = self._granted = self._scale(count)
        except Refused as error:
            self._warnings.say(str(error), kind=str(error.status))
            return False
        except DIError as error:
            self._warnings.say(str(error), kind=type(error).__name__)
        return True
