"""Prometheus metrics of the history; one registry per process."""

from __future__ import annotations

import math
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from di_service.serving.metrics import SECONDS, certificate_metrics, request_metrics


class Metrics:
    """The metrics `di_history_*`; label values come from tables of the program, never from a
    request.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests, self.seconds = request_metrics("history", self.registry)
        self.writes = Counter(
            "di_history_writes",
            "Transactions of records, by result; one that failed is tried again.",
            ["result"],
            registry=self.registry,
        )
        self.records = Counter("di_history_records", "Records written.", registry=self.registry)
        self.dropped = Counter(
            "di_history_records_dropped",
            "Records dropped because the namespaces they are of have too many that wait.",
            registry=self.registry,
        )
        self.write_seconds = Histogram(
            "di_history_write_seconds",
            "Time of one transaction of records.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self._waiting = Gauge(
            "di_history_records_waiting",
            "Records that wait to be written.",
            registry=self.registry,
        )
        self._waiting_bytes = Gauge(
            "di_history_waiting_bytes",
            "Bytes of the records that wait to be written.",
            registry=self.registry,
        )
        self.restarts = Counter(
            "di_history_follow_restarts",
            "Times following began again from what is written, after an error.",
            registry=self.registry,
        )
        self.unreadable = Counter(
            "di_history_unreadable_objects",
            "Changes left out because they could not be recorded; the log names the object.",
            registry=self.registry,
        )
        self.events_left_out = Counter(
            "di_history_events_left_out",
            "Events that are not kept because there are too many about their object.",
            registry=self.registry,
        )
        self.logs = Counter(
            "di_history_logs",
            "Logs of ended containers, by result: kept, or lost with their pod.",
            ["result"],
            registry=self.registry,
        )
        self.whole_logs = Counter(
            "di_history_whole_logs",
            "Whole logs of ended containers, by result: stored as objects, or lost.",
            ["result"],
            registry=self.registry,
        )
        self._spooled = Gauge(
            "di_history_spooled_bytes",
            "Bytes of whole logs, compressed, that wait for the object storage.",
            registry=self.registry,
        )
        self._followed = Gauge(
            "di_history_followed_seconds",
            "Seconds since all that happened was last seen; NaN before the first time.",
            registry=self.registry,
        )
        self.size = Gauge(
            "di_history_stored_bytes",
            "Bytes of what is kept, as of the last sweep.",
            registry=self.registry,
        )
        self.given_up = Counter(
            "di_history_jobs_given_up",
            "Jobs whose history was deleted, by reason: age, or room.",
            ["reason"],
            registry=self.registry,
        )
        self.reloads, self.expiry = certificate_metrics("history", self.registry)

    def count_waiting(self, waiting: Callable[[], int], size: Callable[[], int]) -> None:
        """Register gauges of the number of waiting records, and of their bytes."""
        self._waiting.set_function(waiting)
        self._waiting_bytes.set_function(size)

    def show_spooled(self, size: Callable[[], int]) -> None:
        """Register the gauge of bytes that wait for their upload."""
        self._spooled.set_function(size)

    def show_followed(self, age: Callable[[], float | None]) -> None:
        """Register the gauge of the age of the recorded state."""

        def value() -> float:
            found = age()
            return math.nan if found is None else found

        self._followed.set_function(value)
