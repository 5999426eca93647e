"""Reports that are sent while work goes on: di-server answers up to a second later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

Report = Mapping[str, Any]


class Reports:
    """Sends the newest report, and the next one when that was answered.

    Args:
        repeat_seconds: after which it is sent again if there is no other; None: never.
    """

    def __init__(
        self, send: Callable[[Report], None], *, repeat_seconds: float | None = None
    ) -> None:
        self._send = send
        self._repeat_seconds = repeat_seconds
        self._changed = threading.Condition()
        self._newest: Report | None = None
        self._is_last = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="reports")
        self._thread.start()

    def tell(self, report: Report) -> None:
        """Send this when the one before was answered, unless there is a newer one by then."""
        with self._changed:
            self._newest = report
            self._changed.notify_all()

    def finish(self) -> None:
        """Wait until the newest was answered."""
        with self._changed:
            self._is_last = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        sent: Report | None = None
        while True:
            with self._changed:
                self._changed.wait_for(self._has_news, self._repeat_seconds)
                report, self._newest = self._newest, None
                if report is None and self._is_last:
                    return
            if (sent := report or sent) is not None:
                self._send(sent)

    def _has_news(self) -> bool:
        return self._newest is not None or self._is_last
