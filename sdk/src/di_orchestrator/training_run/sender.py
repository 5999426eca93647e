"""Sending of reports in the background."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from di_orchestrator.errors import BadEnvironment, DIError, Refused
from di_orchestrator.server.api import Advice
from di_orchestrator.warnings_once import Warnings

INTERVAL_SECONDS = 1.0
"""Minimum seconds between two reports in a cluster."""

Report = Mapping[str, Any]


def interval_of(environment: Mapping[str, str]) -> float:
    """Return the minimum seconds between two reports of this pod.

    Raises:
        BadEnvironment: the variable has another form than a number of seconds above 0.
    """
    text = environment.get("DI_REPORT_SECONDS")
    try:
        seconds = INTERVAL_SECONDS if text is None else float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise BadEnvironment(
            f"DI_REPORT_SECONDS is {text!r}, and should be a number of seconds above 0: di run "
            "sets it, so the template of the job should not"
        )
    return seconds


class Sender:
    """Sends the newest report from a separate thread, and the last one before it ends.

    A report that is still waiting when the next one arrives is never sent, because each is
    complete. A lost or refused report does no harm; the cause is logged as a warning, once per
    kind.

    Attributes:
        advised: the batch size in the last response; None: it had none.
        nodes: number of nodes of the learners, in the last response to a report of as many.
    """

    def __init__(
        self,
        send: Callable[[Report], Advice | None],
        *,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self.advised: int | None = None
        self.nodes: tuple[int, int] | None = None
        self._send = send
        self._interval = interval
        self._changed = threading.Condition()
        self._newest: Report | None = None
        self._is_closing = False
        self._warnings = Warnings()
        self._thread = threading.Thread(target=self._run, daemon=True, name="di-reports")
        self._thread.start()

    def tell(self, report: Report) -> None:
        """Queue a report, which replaces a waiting one; never waits."""
        with self._changed:
            self._newest = report
            self._changed.notify_all()

    def close(self, seconds: float) -> bool:
        """Send the newest report now, and end; return False if that took longer than `seconds`."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not None or self._is_closing)
                report, self._newest = self._newest, None
            if report is None:
                return
            began = time.monotonic()
            self._try(report)
            with self._changed:
                left = began + self._interval - time.monotonic()
                self._changed.wait_for(lambda: self._is_closing, max(left, 0.0))

    def _try(self, report: Report) -> None:
        try:
            answer = self._send(report) or Advice()
            self.advised = answer.batch_size
            learners = report.get("learners")
            self.nodes = None
            if answer.nodes is not None and isinstance(learners, int):
                self.nodes = learners, answer.nodes
        except Refused as error:
            self._warnings.say(str(error), kind=f"{error.status} {error.reason}")
        except DIError as error:
            self._warnings.say(str(error), kind=type(error).__name__)
        except Exception as error:  # a training is never ended by its reports
            text = f"a report could not be sent: {error!r}"
            self._warnings.say(text, kind=type(error).__name__)
