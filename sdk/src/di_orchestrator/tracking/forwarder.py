"""The newest of the numbers that trackers got, sent as a job's report."""

from __future__ import annotations

import math
import numbers
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

from di_orchestrator.training_run.report import NUMBERS, TEXTS, TRACKING_URL, is_url
from di_orchestrator.warnings_once import Warnings

MOST_NAMES = 32
"""Number of names that are reported; of each report the history keeps 48."""
LONGEST_NAME = 120
_OWN = frozenset(each.key for each in NUMBERS) | {*TEXTS, TRACKING_URL, "observations"}
"""Keys that mean something to di-server, which a program of others does not mean by them."""


class Forwarder:
    """Collects numbers and sends one report of all of them; thread-safe, and never raises."""

    def __init__(
        self, tell: Callable[[Mapping[str, Any]], None], *, has_own_step: Callable[[], bool]
    ) -> None:
        """`tell` takes a report and never waits; `has_own_step` returns whether the program
        reports its step by itself.
        """
        self._tell = tell
        self._has_own_step = has_own_step
        self._lock = threading.Lock()
        self._values: dict[str, Any] = {}
        self._step: float | None = None
        self._url: str | None = None
        self._warnings = Warnings()

    def scalars(self, values: Mapping[str, Any], step: object = None) -> None:
        """Report numbers by name, at a step; images, texts and the like are left out."""
        found = {
            name: number
            for name, value in values.items()
            if isinstance(name, str) and (number := number_of(value)) is not None
        }
        at = number_of(step)
        if not found:
            return
        with self._lock:
            self._keep(found)
            if at is not None and 0 <= at < math.inf:
                # Trackers get numbers of several axes; the longest one shows the progress.
                self._step = at if self._step is None else max(self._step, at)
            self._send()

    def page(self, url: object) -> None:
        """Report the page of the run."""
        if not is_url(url):
            return
        with self._lock:
            if url != self._url:
                self._url = str(url)
                self._send()

    def _keep(self, found: Mapping[str, float]) -> None:
        for name, number in found.items():
            if name in _OWN or len(name) > LONGEST_NAME:
                self._warnings.say(f"{name[:LONGEST_NAME]}: the tracker alone has this number")
            elif name in self._values or len(self._values) < MOST_NAMES:
                # JSON has neither infinity nor what is no number.
                self._values[name] = number if math.isfinite(number) else str(number)
            else:
                text = f"the job has the first {MOST_NAMES} numbers; the tracker has all"
                self._warnings.say(text)

    def _send(self) -> None:
        report = {**self._values}
        if self._step is not None and not self._has_own_step():
            report["step"] = self._step
        if self._url is not None:
            report[TRACKING_URL] = self._url
        report["reportedAt"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._tell(report)


def number_of(value: object) -> float | None:
    """Return a number, also one of numpy or torch; None for anything else."""
    item = getattr(value, "item", None)
    if callable(item) and not isinstance(value, numbers.Real):
        try:
            value = item()
        except (TypeError, ValueError, RuntimeError):
            return None  # an array of several
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError):
        return None  # an integer that is larger than any float
