"""Thread-safe access to the board, for writers, waiting readers and peers."""

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
"""Maximum number of waiting requests, three quarters of the server's connections. None of them
holds a thread.
"""
PLACES_OF_JOB: Final = 640
"""Maximum number of waiting requests for one job."""
SWEEP_SECONDS: Final = 1.0
REST_SECONDS: Final = 0.05
REST_FOR_EACH: Final = 0.004
"""Seconds per notified client for which a job's board pauses after news: all clients return, and
each costs about half of that in CPU time. So the news of one job use half a CPU at most.
"""

Wake = Callable[[Answer], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The state that a client waits for: another generation than its own."""

    job_uid: str
    task: str | None
    known: str
    changes: bool
    """Whether changes are enough."""


class Members:
    """The board of all members. Thread-safe; no method blocks for long.

    Args:
        lives: returns whether the pod of an entry exists, as far as this server knows.
        clock: monotonic.
        now: the wall clock, which orders entries that a pod sends to different servers.
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
        """Waiting clients by the job's UID; those that wait for the same share one response."""
        self._taken = 0
        self._news: set[str] = set()
        """Jobs with possible news for waiting clients."""
        self._rests: dict[str, float] = {}
        """End of the pause of a job's board."""
        self._swept = clock()
        self._due = threading.Event()
        self._followers: list[threading.Event] = []

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._board)

    @property
    def waiting(self) -> int:
        """Return the number of waiting requests."""
        return self._taken

    def put(self, entry: Entry) -> None:
        """Store an entry that the pod itself sends, now; this is its version.

        Raises:
            OutOfBounds, Busy: the board is full.
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
        """Store entries that a server forwards, each with its age in seconds."""
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
        """Return an event that is set whenever a pod has sent this server something new."""
        event = threading.Event()
        # Replaced and not modified, because other threads can iterate over it.
        self._followers = [*self._followers, event]
        return event

    def unfollow(self, event: threading.Event) -> None:
        """Stop setting the event."""
        self._followers = [each for each in self._followers if each is not event]

    def on_pod(self, _kind: str, pod: dict[str, Any]) -> None:
        """Process an event of the watch, after the cache of pods."""
        with self._lock:
            self._board.judge(pod["metadata"]["uid"], self._lives)
            self._notice()

    def answer(self, watched: Watched) -> Answer:
        """Return the present state."""
        with self._lock:
            return self._answer(watched)

    def subscribe(self, watched: Watched, wake: Wake) -> Callable[[], None]:
        """Register `wake` for the next news; called at once if there is some or all places are
        taken.

        Returns a function that cancels the registration.
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
        """Notify waiting clients forever; run this in a thread."""
        while True:
            try:
                seconds = self.step()
            except Exception:
                _log.exception("telling of members failed")
                seconds = SWEEP_SECONDS
            self._due.wait(seconds)
            self._due.clear()

    def step(self) -> float:
        """Notify the clients with news; return the seconds until the next step."""
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
                # It was already notified.
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
