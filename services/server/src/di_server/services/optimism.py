"""Read, decide, write under the version that was read; again when somebody was faster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Final, TypeVar

from di_api.kube.errors import Conflict, Forbidden, Invalid, NotFound
from di_server.deadline import Deadline
from di_server.decisions.job_id import JobRef
from di_server.problems import Busy, Problem

ATTEMPTS: Final = 10
REFUSALS: Final = (Problem, Conflict, Forbidden, Invalid, NotFound)
"""What a job taken from memory may be refused for and the job as it is may not. Admission judges a
write before its version is compared, so its verdict on an old job is among them."""
_STRIPES: Final = 64
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5

J = TypeVar("J")
T = TypeVar("T")


def from_memory_first(
    known: J | None, read: Callable[[], J], act: Callable[[J], tuple[T, bool]]
) -> Callable[[], T]:
    """An attempt for `Optimism.run` that acts on the job in memory, and only then reads it.

    Args:
        known: the job as it is in memory, where it may be late; None: it is not in sight.
        read: the job as etcd has it.
        act: decides and writes; returns its answer, and whether that is certain although the job
            may have changed, as it is after a write under its version.

    Nobody is refused from memory, and after a conflict it is known to be late.
    """
    first = [known]

    def attempt() -> T:
        job = first.pop() if first else None
        if job is not None:
            with suppress(*REFUSALS):
                answer, certain = act(job)
                if certain:
                    return answer
        answer, _ = act(read())
        return answer

    return attempt


class Optimism:
    """Repeats a read-decide-write until it meets no conflict, within bounds.

    Requests for one job queue up here rather than at the API server, where every one of them
    would cost a conflict; between servers, and against the operator, versions decide.
    """

    def __init__(
        self, *, rng: Random, sleep: Callable[[float], None], on_conflict: Callable[[], None]
    ) -> None:
        self._rng = rng
        self._sleep = sleep
        self._on_conflict = on_conflict
        # Stripes, as a lock a job would have to be forgotten again some day; two jobs on one
        # stripe only wait for each other.
        self._locks = tuple(threading.Lock() for _ in range(_STRIPES))

    def run(self, ref: JobRef, attempt: Callable[[], T], deadline: Deadline) -> T:
        """Call `attempt`, which reads the job itself, until it raises no Conflict.

        Raises:
            Busy: the deadline or the last attempt has passed.
        """
        with self._turn(ref, deadline):
            for count in range(ATTEMPTS):
                try:
                    return attempt()
                except Conflict:
                    self._on_conflict()
                pause = min(_FIRST_PAUSE * 2**count, _LONGEST_PAUSE)
                # Full jitter: equal pauses would make the same writers meet again.
                self._sleep(min(self._rng.uniform(0, pause), deadline.remaining()))
        raise Busy("the job is being changed by others, try again", retry_after=1)

    @contextmanager
    def _turn(self, ref: JobRef, deadline: Deadline) -> Iterator[None]:
        lock = self._locks[hash(ref) % _STRIPES]
        if not lock.acquire(timeout=deadline.remaining()):
            raise Busy("too many requests for this job at once, try again", retry_after=1)
        try:
            yield
        finally:
            lock.release()
