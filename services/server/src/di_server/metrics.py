"""Prometheus metrics of the server; one registry per process."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from di_server.storage.object_cache import ObjectCache
from di_service.serving.metrics import certificate_metrics, request_metrics


class Metrics:
    """The metrics `di_server_*`; label values come from the table of operations, never from a
    request.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests, self.seconds = request_metrics("server", self.registry)
        self._watched = Gauge(
            "di_server_watched_objects",
            "Objects in memory, by resource; NaN until all there are have been seen.",
            ["resource"],
            registry=self.registry,
        )
        self._unreadable = Gauge(
            "di_server_unreadable_objects",
            "Objects left out of memory because they could not be read, by resource.",
            ["resource"],
            registry=self.registry,
        )
        self.reloads, self.expiry = certificate_metrics("server", self.registry)
        self.conflicts = Counter(
            "di_server_conflicts",
            "Writes repeated because the job had changed since it was read.",
            registry=self.registry,
        )
        self._members = Gauge(
            "di_server_members",
            "Entries on the members' boards, of all jobs.",
            registry=self.registry,
        )
        self._waiting = Gauge(
            "di_server_members_waiting",
            "Requests that wait for news of members.",
            registry=self.registry,
        )
        self.exchanges = Counter(
            "di_server_member_exchanges",
            "Times another replica was asked for its members, by result.",
            ["result"],
            registry=self.registry,
        )

    def count_members(self, members: Callable[[], int], waiting: Callable[[], int]) -> None:
        """Register gauges of the number of members, and of waiting requests."""
        self._members.set_function(members)
        self._waiting.set_function(waiting)

    def watch(self, resource: str, cache: ObjectCache[Any]) -> None:
        """Register the counters of a cache."""
        self._watched.labels(resource).set_function(
            lambda: len(cache) if cache.synced else math.nan
        )
        self._unreadable.labels(resource).set_function(lambda: cache.unreadable)
