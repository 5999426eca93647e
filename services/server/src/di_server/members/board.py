"""The entries of all jobs, and the tags by which clients identify a state."""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import orjson

from di_server.members.entry import LIFETIME, Entry
from di_server.problems import Busy, OutOfBounds
from di_server.rest.shared import Shared

MAX_ENTRIES: Final = 16_384
"""Maximum number of entries of all jobs; with MAX_BYTES_OF_JOB it bounds this server's memory."""
MAX_ENTRIES_OF_JOB: Final = 4096
MAX_BYTES_OF_JOB: Final = 1024 * 1024
"""Maximum bytes of the entries of all members of a job."""
_STATES: Final = 64
"""Number of remembered tags per task; since these only changes are sent."""
_CHANGES: Final = 2 * MAX_ENTRIES_OF_JOB
"""Number of members with a remembered last change, removed ones included."""

Lives = Callable[[Entry], bool]
"""Returns whether an entry's pod exists, as far as this server knows."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The response to a client."""

    generation: str
    complete: bool
    """Whether it has all members; else those that changed since the requested tag."""
    members: tuple[bytes, ...]
    """`Entry.shown`, by name of the pod."""
    gone: tuple[str, ...]

    @cached_property
    def data(self) -> Shared:
        """Return the data of the response, which is encoded once for all clients that get it."""
        return Shared(
            {
                "generation": self.generation,
                "complete": self.complete,
                "members": [orjson.Fragment(each) for each in self.members],
                "gone": self.gone,
            }
        )


@dataclass(slots=True, kw_only=True)
class _Kept:
    entry: Entry
    heard: float
    """When its pod last sent it, by this server's clock."""
    source: str | None
    """The server that forwarded it; None: the pod itself sent it."""
    change: int
    """Number of its last change on this board, including a mere repetition."""


@dataclass(slots=True)
class _Job:
    """The entries of one job. Only changes that clients can see are numbered."""

    kept: dict[str, _Kept] = field(default_factory=dict)
    says: int = 0
    """Bytes of all entries."""
    shown: dict[str, Entry] = field(default_factory=dict)
    """Visible entries by name of the pod."""
    change: int = 0
    changed: OrderedDict[str, tuple[int, str]] = field(default_factory=OrderedDict)
    """Number of the last change and task by pod name; latest last."""
    forgotten: int = 0
    """Number of the last change that `changed` no longer has."""
    states: dict[str | None, OrderedDict[str, int]] = field(default_factory=dict)
    """By task: the tags that clients got, with the number of the last change at that time."""
    whole: dict[str | None, Answer] = field(default_factory=dict)
    """By task: the last answer with all members, for those that ask for it until the next sweep."""

    def mark(self, entry: Entry) -> None:
        self.change += 1
        self.changed[entry.pod] = self.change, entry.task
        self.changed.move_to_end(entry.pod)
        if len(self.changed) > _CHANGES:
            _, (self.forgotten, _) = self.changed.popitem(last=False)


class Board:
    """The entries of all members; used by one thread at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        """By the pod's UID, in the order of their changes."""
        self._jobs: dict[str, _Job] = {}
        self._change = 0
        self._news: set[str] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def says(self, pod_uid: str) -> bytes | None:
        """Return the last content that a pod sent, None if there is none."""
        kept = self._kept.get(pod_uid)
        return kept.entry.says if kept else None

    def version_after(self, pod_uid: str, now_ms: int) -> int:
        """Return the version for content that a pod sends now."""
        kept = self._kept.get(pod_uid)
        return max(now_ms, kept.entry.version + 1) if kept else now_ms

    def put(self, entry: Entry, lives: Lives, *, heard: float, source: str | None = None) -> bool:
        """Store an entry; return False if it is not new.

        Args:
            heard: when the pod sent it, by this server's clock.
            source: the server that forwarded it; None: the pod itself sent it.

        Raises:
            OutOfBounds: the entries of the job are too large together.
            Busy: there are too many entries of all jobs.
        """
        before = self._kept.get(entry.pod_uid)
        if before is not None and not entry.is_after(before.entry):
            return False
        job = self._jobs.get(entry.job_uid) or _Job()
        self._check_room(entry, before, job)
        if before is not None:
            self._forget(before)
        self._jobs[entry.job_uid] = job
        self._change += 1
        kept = _Kept(entry=entry, heard=heard, source=source, change=self._change)
        self._kept[entry.pod_uid] = job.kept[entry.pod_uid] = kept
        job.says += len(entry.says)
        self._judge(job, kept, lives)
        return True

    def judge(self, pod_uid: str, lives: Lives) -> None:
        """Update the visibility of a pod's entry after a change of the pod."""
        kept = self._kept.get(pod_uid)
        if kept is not None:
            self._judge(self._jobs[kept.entry.job_uid], kept, lives)

    def sweep(self, now: float, lives: Lives) -> None:
        """Remove entries that were not repeated, and check every pod again.

        No answer is kept for later clients: it has as many bytes as its members.
        """
        for job in self._jobs.values():
            job.whole.clear()
        for kept in list(self._kept.values()):
            job = self._jobs[kept.entry.job_uid]
            if now - kept.heard < LIFETIME:
                self._judge(job, kept, lives)
            else:
                self._hide(job, kept.entry)
                self._forget(kept)

    def take_news(self) -> set[str]:
        """Return the UIDs of the jobs whose visible members changed since the last call."""
        news, self._news = self._news, set()
        return news

    def generation(self, job_uid: str, task: str | None) -> str:
        """Return the tag of the present state: equal for equal members, on every server.

        It is derived only from what clients see.
        """
        job = self._jobs.get(job_uid)
        if job is None:
            return _tag(())
        states = job.states.setdefault(task, OrderedDict())
        last = next(reversed(states), None)
        if last is not None and states[last] == job.change:
            return last
        tag = _tag(each.digest for each in job.shown.values() if task in (None, each.task))
        states[tag] = job.change
        states.move_to_end(tag)
        if len(states) > _STATES:
            states.popitem(last=False)
        return tag

    def answer(self, job_uid: str, task: str | None, since: str | None = None) -> Answer:
        """Return the members of a job, or of one of its tasks.

        Args:
            job_uid: of the job.
            task: None: all tasks.
            since: a generation; if this server knows it, only later changes are returned.
        """
        generation = self.generation(job_uid, task)
        job = self._jobs.get(job_uid) or _Job()
        states = job.states.get(task)
        change = states.get(since) if states and since else None
        if change is None or change < job.forgotten:
            return _whole(job, task, generation)
        names = []
        for name in reversed(job.changed):
            at, of = job.changed[name]
            if at <= change:
                break
            if task in (None, of):
                names.append(name)
        names.sort()
        return Answer(
            generation=generation,
            complete=False,
            members=tuple(job.shown[name].shown for name in names if name in job.shown),
            gone=tuple(name for name in names if name not in job.shown),
        )

    def changed_since(
        self, change: int, *, beside: str, most_bytes: int
    ) -> tuple[list[tuple[Entry, float]], int, bool]:
        """Return entries put since a change of this board, each with its time; the number of the
        last returned change; and whether there are more.

        Args:
            change: the last known change; 0: none.
            beside: the receiving server; entries that it forwarded are left out.
            most_bytes: maximum size of the content; at least one entry is returned.
        """
        found = []
        for kept in reversed(self._kept.values()):
            if kept.change <= change:
                break
            found.append(kept)
        told: list[tuple[Entry, float]] = []
        size = 0
        for kept in reversed(found):
            if kept.source != beside:
                size += len(kept.entry.says) + _ENTRY_BYTES
                if size > most_bytes and told:
                    return told, change, True
                told.append((kept.entry, kept.heard))
            change = kept.change
        return told, self._change, False

    def _check_room(self, entry: Entry, before: _Kept | None, job: _Job) -> None:
        more = len(entry.says) - (len(before.entry.says) if before else 0)
        if job.says + more > MAX_BYTES_OF_JOB:
            raise OutOfBounds(
                f"the members of a job may say {MAX_BYTES_OF_JOB // 1024} KiB together"
            )
        if before is not None:
            return
        if len(job.kept) >= MAX_ENTRIES_OF_JOB:
            raise OutOfBounds(f"a job may have {MAX_ENTRIES_OF_JOB} members")
        if len(self._kept) >= MAX_ENTRIES:
            raise Busy(f"there are {MAX_ENTRIES} members of all jobs", retry_after=LIFETIME)

    def _judge(self, job: _Job, kept: _Kept, lives: Lives) -> None:
        entry = kept.entry
        if not lives(entry):
            self._hide(job, entry)
            return
        before = job.shown.get(entry.pod)
        if before is None or before.digest != entry.digest:
            job.mark(entry)
            self._news.add(entry.job_uid)
        job.shown[entry.pod] = entry

    def _hide(self, job: _Job, entry: Entry) -> None:
        shown = job.shown.get(entry.pod)
        # Another pod can have its name.
        if shown is not None and shown.pod_uid == entry.pod_uid:
            del job.shown[entry.pod]
            job.mark(entry)
            self._news.add(entry.job_uid)

    def _forget(self, kept: _Kept) -> None:
        entry = kept.entry
        job = self._jobs[entry.job_uid]
        del self._kept[entry.pod_uid], job.kept[entry.pod_uid]
        job.says -= len(entry.says)
        if not job.kept:
            del self._jobs[entry.job_uid]


_ENTRY_BYTES: Final = 512
"""Maximum bytes of the names and numbers of an entry."""


def _whole(job: _Job, task: str | None, generation: str) -> Answer:
    known = job.whole.get(task)
    if known is None or known.generation != generation:
        members = (job.shown[name] for name in sorted(job.shown))
        shown = tuple(each.shown for each in members if task in (None, each.task))
        known = Answer(generation=generation, complete=True, members=shown, gone=())
        job.whole[task] = known
    return known


def _tag(digests: Iterable[bytes]) -> str:
    whole = hashlib.sha256(b"".join(sorted(digests))).digest()
    return base64.urlsafe_b64encode(whole[:18]).decode()
