"""Finished jobs that a resync need not wake."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple


class _Settled(NamedTuple):
    version: str
    """The resourceVersion of the job when its reconcile found nothing to do."""
    due: datetime | None
    """When its next reconcile is due, such as at the end of its time to live; None: never."""

    def holds(self, job: Mapping[str, Any], now: datetime) -> bool:
        is_same = job["metadata"]["resourceVersion"] == self.version
        return is_same and (self.due is None or now < self.due)


class SettledJobs:
    """The finished jobs whose last reconcile found nothing to do.

    A finished job depends on its own objects and on time alone. Thousands of them would otherwise
    be reconciled again every minute.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, _Settled] = {}

    def record(self, job: Mapping[str, Any], due: datetime | None) -> None:
        """Record that this version of a finished job needs nothing until `due`, None: for good, or
        until one of its objects changes.
        """
        metadata = job["metadata"]
        self._by_uid[metadata["uid"]] = _Settled(metadata["resourceVersion"], due)

    def clear(self) -> None:
        """Forget all: something of an unknown job has changed."""
        self._by_uid.clear()

    def others(
        self, jobs: Iterable[Mapping[str, Any]], now: datetime
    ) -> Iterator[Mapping[str, Any]]:
        """Yield those of all jobs that are not settled; forget those that are gone."""
        kept: dict[str, _Settled] = {}
        for job in jobs:
            uid = job["metadata"]["uid"]
            settled = self._by_uid.get(uid)
            if settled is not None and settled.holds(job, now):
                kept[uid] = settled
            else:
                yield job
        self._by_uid = kept
