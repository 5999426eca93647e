"""The board among threads: those that put, those that wait for news, and those that tell peers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import structlog

from di_server.deadline import Clock
from di_server.members.board import Answer, Board, Lives
from di_server.members.entry import LIFETIME, Entry
from di_server.problems import Problem

_log = structlog.get_logger()

PLACES: Final = 768
"""Requests that wait at once, three quarters of the connections that a server takes. None of them
holds a thread."""
PLACES_OF_JOB: Final = 640
"""Of them, those that the requests of one job may take."""
SWEEP_SECONDS: Final = 1.0
REST_SECONDS: Final = 0.05
REST_FOR_EACH: Final = 0.004
"""Seconds that a job's board rests after news, for each who was told: they all come back, and each
costs about half as much of a processor. So the news of one job take half a processor at most."""

Wake = Callable[[Answer], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What somebody waits for: another generation than the one that they know."""

    job_uid: str
    task: str | None
    known: str
    changes: bool
    """Whether what has changed is enough."""


class Members:
    """Each method may be called by any thread, and waits for nobody but for a moment.

    Args:
        lives: whether the pod of an entry is there, as far as this server knows.
        clock: monotonic.
        now: the wall clock, which orders what a pod says to different servers.
    """

    def __init__(
        self,
        *,
        lives: Lives,
        clock: Clock,
        now: Callable[[], datetime],
        places: int = PLACES,
        places_of_job: int = PLACES_OF_JOB,
    ) -> None:
        self._board = Board()
        self._lives = lives
        self._clock = clock
        self._now = now
        self._places = places
        self._places_of_job = places_of_job
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[Watched, dict[object, Wake]]] = {}
        """By job's UID: who waits for the same is told the same."""
        self._taken = 0
        self._news: set[str] = set()
        """Jobs whose waiters may have to be told."""
        self._rests: dict[str, float] = {}
        """Until when a job's board rests."""
        self._swept = clock()
        self._due = threading.Event()
        self._followers: list[threading.Event] = []

    def __len__(self) -> int:
        """How many entries there are."""
        return len(self._board)

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return self._taken

    def put(self, entry: Entry) -> None:
        """Take in what a pod says itself, now; that is its version.

        Raises:
            OutOfBounds, Busy: there is no room for it.
        """
        with self._lock:
            is_new = self._board.says(entry.pod_uid) != entry.says
            now_ms = int(self._now().timestamp() * 1000)
            said = replace(entry, version=self._board.version_after(entry.pod_uid, now_ms))
            self._board.put(said, self._lives, heard=self._clock())
            self._notice()
        if is_new:
            for follower in self._followers:
                follower.set()

    def merge(self, source: str, entries: Iterable[tuple[Entry, float]]) -> None:
        """Take in what a server tells, each with its age in seconds."""
        refused: list[Problem] = []
        with self._lock:
            now = self._clock()
            for entry, age in entries:
                if age >= LIFETIME:
                    continue
                try:
                    self._board.put(entry, self._lives, heard=now - age, source=source)
                except Problem as problem:
                    refused.append(problem)
            self._notice()
        if refused:
            _log.warning("members left out", count=len(refused), reason=refused[0].message)

    def changed_since(
        self, change: int, *, beside: str, most_bytes: int
    ) -> tuple[list[tuple[Entry, float]], int, bool]:
        """As `Board.changed_since`, with ages in seconds."""
        with self._lock:
            now = self._clock()
            found, upto, more = self._board.changed_since(
                change, beside=beside, most_bytes=most_bytes
            )
        return [(entry, max(0.0, now - heard)) for entry, heard in found], upto, more

    def follow(self) -> threading.Event:
        """An event that is set whenever a pod has told this server something new."""
        event = threading.Event()
        # Replaced, for others may go through it now.
        self._followers = [*self._followers, event]
        return event

    def unfollow(self, event: threading.Event) -> None:
        """Nobody looks at the event any more."""
        self._followers = [each for each in self._followers if each is not event]

    def on_pod(self, _kind: str, pod: dict[str, Any]) -> None:
        """An event of the watch, which the cache of pods has seen."""
        with self._lock:
            self._board.judge(pod["metadata"]["uid"], self._lives)
            self._notice()

    def answer(self, watched: Watched) -> Answer:
        """What there is now."""
        with self._lock:
            return self._answer(watched)

    def subscribe(self, watched: Watched, wake: Wake) -> Callable[[], None]:
        """Have `wake` called once there is news, at once if there is or all places are taken.

        Returns how to end that.
        """
        mine = object()
        with self._lock:
            if self._has_place(watched.job_uid) and not self._is_news(watched):
                groups = self._waiting.setdefault(watched.job_uid, {})
                groups.setdefault(watched, {})[mine] = wake
                self._taken += 1
                return lambda: self._leave(watched, mine)
            answer = self._answer(watched)
        wake(answer)
        return lambda: None

    def run(self) -> None:
        """Tell those who wait, for ever; in a thread of its own."""
        while True:
            try:
                seconds = self.step()
            except Exception:
                _log.exception("telling of members failed")
                seconds = SWEEP_SECONDS
            self._due.wait(seconds)
            self._due.clear()

    def step(self) -> float:
        """Tell those for whom there is news; returns after how many seconds to look again."""
        told: list[tuple[Answer, list[Wake]]] = []
        with self._lock:
            now = self._clock()
            if now - self._swept >= SWEEP_SECONDS:
                self._swept = now
                self._board.sweep(now, self._lives)
                self._news |= self._board.take_news()
                self._rests = {job: at for job, at in self._rests.items() if at > now}
            for job in [each for each in self._news if self._rests.get(each, now) <= now]:
                self._news.discard(job)
                groups = self._take_told(job)
                told += groups
                count = sum(len(wakes) for _, wakes in groups)
                if count:
                    self._rests[job] = now + max(REST_SECONDS, REST_FOR_EACH * count)
            due = [self._rests[job] for job in self._news]
            seconds = min([self._swept + SWEEP_SECONDS, *due]) - now
        for answer, wakes in told:
            for wake in wakes:
                wake(answer)
        return max(0.0, seconds)

    def _take_told(self, job: str) -> list[tuple[Answer, list[Wake]]]:
        told = []
        for watched, wakes in list(self._waiting.get(job, {}).items()):
            if self._is_news(watched):
                told.append((self._answer(watched), list(wakes.values())))
                self._taken -= len(wakes)
                del self._waiting[job][watched]
        if not self._waiting.get(job, True):
            del self._waiting[job]
        return told

    def _answer(self, watched: Watched) -> Answer:
        since = watched.known if watched.changes else None
        return self._board.answer(watched.job_uid, watched.task, since)

    def _is_news(self, watched: Watched) -> bool:
        return self._board.generation(watched.job_uid, watched.task) != watched.known

    def _has_place(self, job: str) -> bool:
        mine = sum(map(len, self._waiting.get(job, {}).values()))
        return self._taken < self._places and mine < self._places_of_job

    def _leave(self, watched: Watched, mine: object) -> None:
        with self._lock:
            groups = self._waiting.get(watched.job_uid, {})
            wakes = groups.get(watched, {})
            if wakes.pop(mine, None) is None:
                # It was told.
                return
            self._taken -= 1
            if not wakes:
                del groups[watched]
            if not groups:
                del self._waiting[watched.job_uid]

    def _notice(self) -> None:
        news = self._board.take_news()
        if news:
            self._news |= news
            self._due.set()
