"""Publication of this pod's entry on the board of its job, repeated from a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from di_orchestrator.errors import DIError, Refused
from di_orchestrator.server.api import Heartbeat
from di_orchestrator.warnings_once import Warnings

AGAIN_SECONDS = 1.0
"""Seconds until a retry after a failed publication."""
_ENDING = 409
"""Status for a pod that is being deleted, which can publish nothing any more."""

Said = Mapping[str, Any]


class Entry:
    """Publishes the latest entry, at once after a change, from a separate thread."""

    def __init__(self, say: Callable[[Said], Heartbeat]) -> None:
        self._say = say
        self._changed = threading.Condition()
        self._said: Said | None = None
        self._is_new = False
        self._is_closing = False
        self._warnings = Warnings()
        self._thread: threading.Thread | None = None

    def put(self, said: Said) -> None:
        """Publish this entry from now on; never waits for the network."""
        with self._changed:
            if self._is_closing:
                return
            if said != self._said:
                self._said, self._is_new = dict(said), True
                self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True, name="di-board")
                self._thread.start()

    def close(self) -> None:
        """Stop: the entry expires within half a minute."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def _run(self) -> None:
        wait = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_new or self._is_closing, wait)
                if self._is_closing or self._said is None:
                    return
                said, self._is_new = self._said, False
            try:
                wait = self._say(said).seconds
            except Refused as error:
                if error.status == _ENDING:
                    self.close()
                else:
                    self._warnings.say(str(error))
                wait = 10 * AGAIN_SECONDS
            except DIError as error:
                self._warnings.say(str(error))
                wait = AGAIN_SECONDS
