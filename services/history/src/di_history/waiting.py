"""Records that wait to be written, bounded in bytes."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from di_history.records import JobSeen, Record, Revision

_OBJECT: Final = 200
"""Bytes of a record and its place in the queue, beside its fields."""


def weight(record: Record) -> int:
    """Bytes that a record takes in memory, about."""
    return _OBJECT + sum(size_of(getattr(record, each.name)) for each in fields(record))


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A record in the queue.

    Attributes:
        place: number of its arrival.
        weight: bytes.
    """

    place: int
    record: Record
    weight: int


class Queue:
    """First in, first out; of what a later record of the same job replaces only the last waits.

    The last sight of a job replaces an earlier one, and comes at the end: an entry must not be
    written after a sight that has it already. Revisions of a job past a bound lose the oldest,
    as they would in the store.

    Args:
        job_revisions: bytes of the revisions of one job.

    Attributes:
        bytes: of all that wait.
    """

    def __init__(self, *, job_revisions: int) -> None:
        self._job_revisions = job_revisions
        self._waiting: OrderedDict[int, Waiting] = OrderedDict()
        self._sights: dict[str, int] = {}
        self._revisions: dict[str, deque[int]] = {}
        self._revision_bytes: Counter[str] = Counter()
        self._next = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, record: Record) -> None:
        """Add a record at the end, and drop what it replaces."""
        found = Waiting(place=self._next, record=record, weight=weight(record))
        self._next += 1
        self._waiting[found.place] = found
        self.bytes += found.weight
        if isinstance(record, JobSeen):
            self._drop(self._sights.get(record.uid))
            self._sights[record.uid] = found.place
        elif isinstance(record, Revision):
            self._merge(record.job, found)

    def take(self, *, records: int, most: int) -> list[Waiting]:
        """Remove the first so many, of `most` bytes together, but at least one; none if empty."""
        taken: list[Waiting] = []
        size = 0
        while self._waiting and len(taken) < records:
            first = next(iter(self._waiting.values()))
            size += first.weight
            if taken and size > most:
                break
            taken.append(self._waiting.pop(first.place))
            self.bytes -= first.weight
            self._forget(first)
        return taken

    def put_back(self, taken: list[Waiting]) -> None:
        """Add what was taken at the beginning."""
        for each in reversed(taken):
            self._waiting[each.place] = each
            self._waiting.move_to_end(each.place, last=False)
            self.bytes += each.weight

    def _merge(self, job: str, new: Waiting) -> None:
        waiting = self._revisions.setdefault(job, deque())
        waiting.append(new.place)
        self._revision_bytes[job] += new.weight
        while len(waiting) > 1 and self._revision_bytes[job] > self._job_revisions:
            oldest = self._waiting[waiting[0]]
            self._drop(oldest.place)
            self._forget(oldest)

    def _drop(self, place: int | None) -> None:
        if place is not None and (found := self._waiting.pop(place, None)) is not None:
            self.bytes -= found.weight

    def _forget(self, taken: Waiting) -> None:
        """Remove what leads to a record that has left the queue."""
        record = taken.record
        if isinstance(record, JobSeen) and self._sights.get(record.uid) == taken.place:
            del self._sights[record.uid]
        elif isinstance(record, Revision) and record.job in self._revisions:
            waiting = self._revisions[record.job]
            if waiting and waiting[0] == taken.place:
                waiting.popleft()
                self._revision_bytes[record.job] -= taken.weight
            if not waiting:
                del self._revisions[record.job], self._revision_bytes[record.job]


def size_of(value: Any) -> int:
    """Bytes that a value takes in memory, about."""
    size = sys.getsizeof(value)
    if isinstance(value, Mapping):
        size += sum(size_of(key) + size_of(each) for key, each in value.items())
    elif isinstance(value, list | tuple):
        size += sum(map(size_of, value))
    return size
