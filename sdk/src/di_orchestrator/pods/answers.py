"""Responses of a program to requests: each is computed once, and a failure is counted."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from di_orchestrator.errors import BadRequest, Gone
from di_orchestrator.pods.messages import Answering, Asked, Reply, reply_of
from di_orchestrator.server.exchange import Clock
from di_orchestrator.warnings_once import Warnings

log = logging.getLogger("di_orchestrator")

SLOW_SECONDS = 5.0
"""Seconds of a computation after which the client may have timed out, and sends it again."""
KEPT_SECONDS = 30.0
"""Seconds for which the response of a slow computation is kept for the next request."""
MOST_PATHS = 64
"""Maximum number of paths whose failures are counted separately."""


@dataclass
class _Computation:
    began: float
    is_over: threading.Event = field(default_factory=threading.Event)
    reply: Reply = field(default_factory=Reply)
    ended: float | None = None


class Answers:
    """Calls a program's function for requests, from many threads."""

    def __init__(self, answer: Answering, *, clock: Clock = time.monotonic) -> None:
        self._answer = answer
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: dict[tuple[str, str, str], _Computation] = {}
        self._failed: Counter[str] = Counter()
        self._worked: set[str] = set()
        self._warnings = Warnings()

    @property
    def failures(self) -> int:
        """Return the number of requests that failed by an error of the function."""
        with self._lock:
            return sum(self._failed.values())

    def always_failed(self) -> dict[str, int]:
        """Return how often each path has failed that has never worked."""
        with self._lock:
            return {path: count for path, count in self._failed.items() if path not in self._worked}

    def of(self, asked: Asked, identity: str) -> Reply:
        """Return the response; a request that is repeated while it is computed gets the same one.

        Args:
            identity: the same for each repetition of a request; empty: unknown.
        """
        if not identity:
            return self._compute(asked)
        key = (identity, asked.method, asked.target)
        with self._lock:
            self._forget()
            known = self._under_way.get(key)
            mine = _Computation(self._clock())
            if known is None:
                self._under_way[key] = mine
        if known is not None:
            known.is_over.wait()
            return known.reply
        try:
            mine.reply = self._compute(asked)
        finally:
            with self._lock:
                mine.ended = self._clock()
                is_slow = mine.ended - mine.began >= SLOW_SECONDS
                if not is_slow or mine.reply.status >= 500:
                    del self._under_way[key]
            mine.is_over.set()
        return mine.reply

    def _forget(self) -> None:
        now = self._clock()
        over = [
            key
            for key, each in self._under_way.items()
            if each.ended is not None and now - each.ended >= KEPT_SECONDS
        ]
        for key in over:
            del self._under_way[key]

    def _compute(self, asked: Asked) -> Reply:
        what = f"{asked.method} {asked.path}"
        try:
            reply = reply_of(self._answer(asked))
        except (BadRequest, Gone) as error:
            reply = Reply(error.status, error.reason.encode())
        except Exception as error:
            # An error of Python itself inside the function is a bug of it.
            is_bad_request = isinstance(error, ValueError) or type(error) is LookupError
            if not is_bad_request:
                log.exception("%s could not be answered", what)
                self._count(what)
                return Reply(500, repr(error).encode())
            with self._lock:
                self._warnings.say(f"{what} was refused: {error!r}", kind=what)
            reply = Reply(400, repr(error).encode())
        with self._lock:
            if len(self._worked) < MOST_PATHS:
                self._worked.add(what)
        return reply

    def _count(self, what: str) -> None:
        with self._lock:
            if what in self._failed or len(self._failed) < MOST_PATHS:
                self._failed[what] += 1
