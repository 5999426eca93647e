"""The queue of records to write, limited in bytes and shared by namespaces."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from di_history.fair_share import over_the_level
from di_history.records import JobGone, JobSeen, Record, Revision

_OBJECT: Final = 200
"""Bytes of a record and its place in the queue, besides its fields."""


def weight(record: Record) -> int:
    """Return the approximate bytes of a record in memory."""
    return _OBJECT + sum(size_of(getattr(record, each.name)) for each in fields(record))


def job_of(record: Record) -> str:
    """Return the UID of a record's job."""
    return record.uid if isinstance(record, JobSeen | JobGone) else record.job


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A record in the queue.

    Attributes:
        place: number of its arrival.
        weight: bytes.
    """

    place: int
    namespace: str
    record: Record
    weight: int


@dataclass(slots=True, kw_only=True)
class _OfJob:
    """Places of one job's records in the queue."""

    namespace: str
    places: set[int] = field(default_factory=set)
    bytes: int = 0
    sight: int | None = None
    revisions: deque[int] = field(default_factory=deque)
    revision_bytes: int = 0


class Queue:
    """A first-in, first-out queue in which a later record of a job can replace an earlier one.

    The last observation of a job replaces an earlier one, and goes to the end: an entry must not be
    written after an observation that includes it. Beyond a limit a job's oldest revisions are
    dropped, as in the store.

    Args:
        job_revisions: maximum bytes of the revisions of one job.

    Attributes:
        bytes: of all records.
    """

    def __init__(self, *, job_revisions: int) -> None:
        self._job_revisions = job_revisions
        self._waiting: OrderedDict[int, Waiting] = OrderedDict()
        self._jobs: dict[str, _OfJob] = {}
        self._next = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, namespace: str, record: Record) -> None:
        """Add a record of a job of the namespace at the end, and drop the one that it replaces."""
        found = Waiting(place=self._next, namespace=namespace, record=record, weight=weight(record))
        self._next += 1
        job = self._add(found)
        if isinstance(record, JobSeen):
            replaced, job.sight = job.sight, found.place
            if replaced is not None:
                self._remove(replaced)
        elif isinstance(record, Revision):
            job.revisions.append(found.place)
            job.revision_bytes += found.weight
            while len(job.revisions) > 1 and job.revision_bytes > self._job_revisions:
                self._remove(job.revisions[0])

    def take(self, *, records: int, most: int) -> list[Waiting]:
        """Remove and return the first records, up to `records` and `most` bytes, but at least one;
        empty if there are none.
        """
        taken: list[Waiting] = []
        size = 0
        while self._waiting and len(taken) < records:
            first = next(iter(self._waiting.values()))
            size += first.weight
            if taken and size > most:
                break
            taken.append(self._remove(first.place))
        return taken

    def put_back(self, taken: list[Waiting]) -> None:
        """Return taken records to the beginning."""
        for each in reversed(taken):
            self._add(each)
            self._waiting.move_to_end(each.place, last=False)

    def shrink(self, most: int) -> Iterator[tuple[str, int]]:
        """Drop whole jobs until at most `most` bytes wait; yields their UIDs and numbers of
        records.

        Only namespaces above their max-min fair share of `most` lose jobs: the largest namespace
        first, and in each its largest jobs. A job loses all its waiting records, because a later
        record would be stored after a hole.
        """
        sizes: Counter[str] = Counter()
        for job in self._jobs.values():
            sizes[job.namespace] += job.bytes
        over = over_the_level(sizes, most)
        chosen = [
            (sizes[job.namespace], job.bytes, uid)
            for uid, job in self._jobs.items()
            if job.namespace in over
        ]
        for _, size, uid in sorted(chosen, reverse=True):
            job = self._jobs[uid]
            if self.bytes > most and over[job.namespace] > 0:
                over[job.namespace] -= size
                places = tuple(job.places)
                for place in places:
                    self._remove(place)
                yield uid, len(places)

    def _add(self, found: Waiting) -> _OfJob:
        self._waiting[found.place] = found
        self.bytes += found.weight
        job = self._jobs.setdefault(job_of(found.record), _OfJob(namespace=found.namespace))
        job.places.add(found.place)
        job.bytes += found.weight
        return job

    def _remove(self, place: int) -> Waiting:
        found = self._waiting.pop(place)
        self.bytes -= found.weight
        uid = job_of(found.record)
        job = self._jobs[uid]
        job.places.remove(place)
        job.bytes -= found.weight
        if job.sight == place:
            job.sight = None
        # A returned record is not in order with later ones.
        if job.revisions and job.revisions[0] == place:
            job.revisions.popleft()
            job.revision_bytes -= found.weight
        if not job.places:
            del self._jobs[uid]
        return found


def size_of(value: Any) -> int:
    """Return the approximate bytes of a value in memory."""
    size = sys.getsizeof(value)
    if isinstance(value, Mapping):
        size += sum(size_of(key) + size_of(each) for key, each in value.items())
    elif isinstance(value, list | tuple):
        size += sum(map(size_of, value))
    return size
