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
    """

    def __init__(self, scale: Callable[[int], int]) -> None:
        self._scale = scale
        self._thread: threading.Thread | None = None
        self._granted: int | None = None
        self._warnings = Warnings()

    @property
    def is_asking(self) -> bool:
        """Whether an answer is awaited, or not taken yet."""
        return self._thread is not None

    def ask(self, now: int, wanted: int) -> None:
        """Ask for so many; of a number that is refused, for half the change, and so on."""
        self._thread = threading.Thread(
            target=self._run, args=(now, wanted), daemon=True, name="di-rescaling"
        )
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
        while wanted != now and not self._is_answered(wanted):
            # A bound, most likely: what is within it is still worth having.
            wanted = now + int((wanted - now) / 2)

    def _is_answered(self, count: int) -> bool:
        """False if so many are refused."""
        try:
            self._granted = self._scale(count)
        except Refused as error:
            self._warnings.say(str(error), kind=str(error.status))
            return False
        except DIError as error:
            self._warnings.say(str(error), kind=type(error).__name__)
        return True
