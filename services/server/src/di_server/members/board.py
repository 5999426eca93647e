"""The entries of all jobs, and the tags by which clients know a state of them."""

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

MAX_ENTRIES: Final = 16_384
"""Of all jobs; with MAX_BYTES_OF_JOB the bound on this server's memory."""
MAX_ENTRIES_OF_JOB: Final = 4096
MAX_BYTES_OF_JOB: Final = 1024 * 1024
"""That all members of a job say together."""
_STATES: Final = 64
"""Of each task whose tags are known, so that only what has changed since need be told."""
_CHANGES: Final = 2 * MAX_ENTRIES_OF_JOB
"""Members whose last change is known, those that have gone among them."""

Lives = Callable[[Entry], bool]
"""Whether an entry's pod is there, as far as this server knows."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a client is told."""

    generation: str
    complete: bool
    """Whether it is all there is; else what has changed since the one that was asked about."""
    members: tuple[bytes, ...]
    """`Entry.shown`, by name of the pod."""
    gone: tuple[str, ...]

    @cached_property
    def data(self) -> orjson.Fragment:
        """As JSON: encoded once, for however many are told it."""
        return orjson.Fragment(
            orjson.dumps(
                {
                    "generation": self.generation,
                    "complete": self.complete,
                    "members": [orjson.Fragment(each) for each in self.members],
                    "gone": self.gone,
                }
            )
        )


@dataclass(slots=True, kw_only=True)
class _Kept:
    entry: Entry
    heard: float
    """When its pod last said so, by this server's clock."""
    source: str | None
    """The server that told of it; None: the pod itself."""
    change: int
    """Of this board, the last time anything of it was new, if only that the pod lives."""


@dataclass(slots=True)
class _Job:
    """Of one job. Its changes are numbered, those that clients see alone."""

    kept: dict[str, _Kept] = field(default_factory=dict)
    says: int = 0
    """Bytes."""
    shown: dict[str, Entry] = field(default_factory=dict)
    """By name of the pod."""
    change: int = 0
    changed: OrderedDict[str, tuple[int, str]] = field(default_factory=OrderedDict)
    """The last change of a pod's name, and its task; latest last."""
    forgotten: int = 0
    """The last change that is not in `changed` any more."""
    states: dict[str | None, OrderedDict[str, int]] = field(default_factory=dict)
    """By task: tags that somebody was told, and the change of then."""

    def mark(self, entry: Entry) -> None:
        self.change += 1
        self.changed[entry.pod] = self.change, entry.task
        self.changed.move_to_end(entry.pod)
        if len(self.changed) > _CHANGES:
            _, (self.forgotten, _) = self.changed.popitem(last=False)


class Board:
    """What all members say; for one thread at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        """By the pod's UID, in the order of their changes."""
        self._jobs: dict[str, _Job] = {}
        self._change = 0
        self._news: set[str] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def says(self, pod_uid: str) -> bytes | None:
        """What a pod said last, None if nothing is known of it."""
        kept = self._kept.get(pod_uid)
        return kept.entry.says if kept else None

    def version_after(self, pod_uid: str, now_ms: int) -> int:
        """The version of what a pod says now."""
        kept = self._kept.get(pod_uid)
        return max(now_ms, kept.entry.version + 1) if kept else now_ms

    def put(self, entry: Entry, lives: Lives, *, heard: float, source: str | None = None) -> bool:
        """Take an entry in; returns False if it is no news.

        Args:
            heard: when the pod said so, by this server's clock.
            source: the server that told of it; None: the pod itself.

        Raises:
            OutOfBounds: the members of the job say too much together.
            Busy: there are too many of all jobs.
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
        """Something has become of a pod."""
        kept = self._kept.get(pod_uid)
        if kept is not None:
            self._judge(self._jobs[kept.entry.job_uid], kept, lives)

    def sweep(self, now: float, lives: Lives) -> None:
        """Let go what was not repeated, and look at every pod anew."""
        for kept in list(self._kept.values()):
            job = self._jobs[kept.entry.job_uid]
            if now - kept.heard < LIFETIME:
                self._judge(job, kept, lives)
            else:
                self._hide(job, kept.entry)
                self._forget(kept)

    def take_news(self) -> set[str]:
        """UIDs of the jobs whose members clients would see otherwise than when this was last
        called."""
        news, self._news = self._news, set()
        return news

    def generation(self, job_uid: str, task: str | None) -> str:
        """The tag of what there is: equal where the members are, on every server.

        It is made of what clients are told, and of nothing else.
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
        """The members of a job, or of one of its tasks.

        Args:
            job_uid: of the job.
            task: None: of all.
            since: a generation; only what has changed since is told, if this server knows it.
        """
        generation = self.generation(job_uid, task)
        job = self._jobs.get(job_uid) or _Job()
        states = job.states.get(task)
        change = states.get(since) if states and since else None
        if change is None or change < job.forgotten:
            found = sorted(job.shown)
            members = (job.shown[name] for name in found)
            shown = tuple(each.shown for each in members if task in (None, each.task))
            return Answer(generation=generation, complete=True, members=shown, gone=())
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
        """What was put since a change of this board, each with when its pod said so; the change to
        go on from, and whether there is more.

        Args:
            change: the last one that is known; 0: none.
            beside: the server that is to be told; what it has told itself is left out.
            most_bytes: of what they say; at least one is told.
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
        # Another pod may have its name.
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
"""More than the names and numbers of an entry take."""


def _tag(digests: Iterable[bytes]) -> str:
    whole = hashlib.sha256(b"".join(sorted(digests))).digest()
    return base64.urlsafe_b64encode(whole[:18]).decode()
