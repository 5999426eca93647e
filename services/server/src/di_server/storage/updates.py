"""Jobs changed under optimistic concurrency: read, decide, write; again when somebody was faster.

What `GuaranteedUpdate` is inside the API server, on this side of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, TypeVar

from di_kube.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from di_server.deadline import Deadline
from di_server.model.job import Job
from di_server.model.references import JobRef
from di_server.problems import Busy, Problem
from di_server.retry_policy import RetryPolicy
from di_server.storage.jobs import JobStore
from di_server.storage.kube import Object

ATTEMPTS: Final = 10
POSSIBLY_STALE: Final = (Problem, Conflict, Forbidden, Invalid, NotFound)
"""What a cached job may be refused for and the job as it is may not. Admission judges a write
before its version is compared, so its verdict on an old job is among them."""
_LOCKS: Final = 64
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Update(Generic[T]):
    """What was decided on one version of a job."""

    result: T
    patch: Sequence[Object] = ()
    """RFC 6902, which sets the version decided on; empty: there is nothing to write."""
    settled: bool = False
    """Whether the result stands without a write, also if the job has changed since."""

    @property
    def certain(self) -> bool:
        """Whether the result stands once it is written: a write proves that the job was so."""
        return self.settled or bool(self.patch)


class JobUpdates:
    """Repeats a read-decide-write until it meets no conflict, within bounds.

    Requests for one job queue up here rather than at the API server, where every one of them
    would cost a conflict; between servers, and against the operator, versions decide.
    """

    def __init__(
        self,
        *,
        jobs: JobStore,
        rng: Random,
        sleep: Callable[[float], None],
        on_conflict: Callable[[], None],
    ) -> None:
        self._jobs = jobs
        self._rng = rng
        self._sleep = sleep
        self._on_conflict = on_conflict
        # So many for all, as a lock a job would have to be forgotten again some day; two jobs
        # under one lock only wait for each other.
        self._locks = tuple(threading.Lock() for _ in range(_LOCKS))

    def update_spec(
        self,
        ref: JobRef,
        decide: Callable[[Job], Update[T]],
        deadline: Deadline,
        *,
        policy: RetryPolicy | None = None,
        on_lost: Callable[[Update[T]], None] = lambda _: None,
    ) -> T:
        """Write what is decided on the cached job, or else on the job as etcd has it.

        Nobody is refused from the cache, and after a conflict it is known to be late.

        Args:
            decide: may be called several times, each time on another version.
            policy: for clients who wait for an API server that is away; None: they do not.
            on_lost: is told of an update whose write got no answer: it may have taken effect.

        Raises:
            Busy: the deadline or the last attempt has passed.
        """
        first = [self._jobs.cached(ref)]

        def attempt() -> T:
            job = first.pop() if first else None
            if job is not None:
                with suppress(*POSSIBLY_STALE):
                    update = decide(job)
                    self._patch(ref, update, deadline, on_lost)
                    if update.certain:
                        return update.result
            update = decide(Job(self._jobs.get(ref, deadline)))
            self._patch(ref, update, deadline, on_lost)
            return update.result

        def without_conflict() -> T:
            return self._retry_on_conflict(ref, attempt, deadline)

        return policy.run(without_conflict, deadline) if policy else without_conflict()

    def update_status(
        self, ref: JobRef, decide: Callable[[Object], Object | None], deadline: Deadline
    ) -> None:
        """Write the RFC 7396 patch that is decided on the job as etcd has it; None: nothing.

        Raises:
            Busy: the deadline or the last attempt has passed.
        """

        def attempt() -> None:
            patch = decide(self._jobs.get(ref, deadline))
            if patch is not None:
                self._jobs.patch_status(ref, patch, deadline)

        self._retry_on_conflict(ref, attempt, deadline)

    def _patch(
        self,
        ref: JobRef,
        update: Update[T],
        deadline: Deadline,
        on_lost: Callable[[Update[T]], None],
    ) -> None:
        if not update.patch:
            return
        try:
            self._jobs.patch_spec(ref, update.patch, deadline)
        except Unavailable:
            on_lost(update)
            raise

    def _retry_on_conflict(self, ref: JobRef, attempt: Callable[[], T], deadline: Deadline) -> T:
        with self._locked(ref, deadline):
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
    def _locked(self, ref: JobRef, deadline: Deadline) -> Iterator[None]:
        lock = self._locks[hash(ref) % _LOCKS]
        if not lock.acquire(timeout=deadline.remaining()):
            raise Busy("too many requests for this job at once, try again", retry_after=1)
        try:
            yield
        finally:
            lock.release()
