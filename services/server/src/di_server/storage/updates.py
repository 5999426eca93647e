"""Updates of jobs with optimistic concurrency: read, decide, write, and repeat after a conflict.

This is the client-side form of `GuaranteedUpdate` in the API server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Final, Generic, TypeVar

import structlog

from di_kube.errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
    Unwritten,
)
from di_server.deadline import Deadline
from di_server.model.job import Job
from di_server.model.references import JobRef
from di_server.problems import Busy, Problem, Unsettled
from di_server.retry_policy import RetryPolicy
from di_server.storage.jobs import JobStore
from di_server.storage.kube import Object
from di_server.storage.locks import Locks

ATTEMPTS: Final = 10
POSSIBLY_STALE: Final = (Problem, Conflict, Forbidden, Invalid, NotFound)
"""Errors that an outdated cached job can cause and the present job may not. Admission runs before
the version is compared, so its refusal of an old job is among them.
"""
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5

_log = structlog.get_logger()
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Update(Generic[T]):
    """A decision on one version of a job."""

    result: T
    patch: Sequence[Object] = ()
    """RFC 6902 operations, which set the version that was read; empty: nothing is written."""
    settled: bool = False
    """Whether the result is valid without a write, even if the job has changed since."""

    @property
    def certain(self) -> bool:
        """Return whether the result is valid after the write, which proves that the job was
        unchanged.
        """
        return self.settled or bool(self.patch)


class JobUpdates:
    """Repeats read, decide and write until there is no conflict, within bounds.

    Requests for one job queue here and not at the API server, where each of them would cause a
    conflict. Between servers, and with the operator, versions resolve conflicts.

    Args:
        waiting: maximum number of requests in the queue of one job, each of which holds a thread.
            More are refused, except for clients that wait for an unreachable API server.
    """

    def __init__(
        self,
        *,
        jobs: JobStore,
        rng: Random,
        sleep: Callable[[float], None],
        on_conflict: Callable[[], None],
        waiting: int,
    ) -> None:
        self._jobs = jobs
        self._rng = rng
        self._sleep = sleep
        self._on_conflict = on_conflict
        self._waiting = waiting
        self._locks = Locks[JobRef]()

    def update_spec(
        self,
        ref: JobRef,
        decide: Callable[[Job], Update[T]],
        deadline: Deadline,
        *,
        policy: RetryPolicy | None = None,
        on_lost: Callable[[Update[T]], None] = lambda _: None,
    ) -> T:
        """Write the decision on the cached job, or else on the job as etcd has it.

        No request is refused by the cache, and after a conflict the cache is known to be outdated.

        Args:
            decide: can be called several times, each time on another version.
            policy: retries for clients that wait for an unreachable API server; None: no retries.
            on_lost: called with an update whose write got no response: it may have taken effect.

        Raises:
            Busy: the deadline passed, the last attempt failed, or too many requests wait for the
                job.
            Unsettled: a write got no response, and no later attempt has shown its result.
        """
        first = [self._jobs.cached(ref)]
        lost: list[Update[T]] = []

        def lose(update: Update[T]) -> None:
            lost.append(update)
            on_lost(update)

        def attempt() -> T:
            job = first.pop() if first else None
            if job is not None:
                with suppress(*POSSIBLY_STALE):
                    update = decide(job)
                    self._patch(ref, update, deadline, lose)
                    if update.certain:
                        return update.result
            update = decide(Job(self._jobs.get(ref, deadline)))
            self._patch(ref, update, deadline, lose)
            return update.result

        def without_conflict() -> T:
            most = None if policy else self._waiting
            return self._retry_on_conflict(ref, attempt, deadline, most_waiting=most)

        try:
            return policy.run(without_conflict, deadline) if policy else without_conflict()
        except (Unavailable, Throttled, Busy) as error:
            if lost:
                _log.warning("a change has no answer", job=ref.id, error=str(error))
                # Not a refusal for now, after which clients send a change again.
                raise Unsettled from error
            raise

    def update_status(
        self,
        ref: JobRef,
        decide: Callable[[Object], Object | None],
        deadline: Deadline,
        *,
        check: Callable[[Object], None] = lambda _: None,
    ) -> None:
        """Write the RFC 7396 patch that is decided on the job as etcd has it; None: nothing.

        Args:
            check: called with the job as it was stored; can raise a Problem.

        Raises:
            Busy: the deadline passed, or the last attempt failed.
        """

        def attempt() -> None:
            patch = decide(self._jobs.get(ref, deadline))
            if patch is not None:
                check(self._jobs.patch_status(ref, patch, deadline))

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
        except Unwritten:
            raise
        except Unavailable:
            on_lost(update)
            raise

    def _retry_on_conflict(
        self,
        ref: JobRef,
        attempt: Callable[[], T],
        deadline: Deadline,
        *,
        most_waiting: int | None = None,
    ) -> T:
        with self._locked(ref, deadline, most_waiting):
            for count in range(ATTEMPTS):
                try:
                    return attempt()
                except Conflict:
                    self._on_conflict()
                pause = min(_FIRST_PAUSE * 2**count, _LONGEST_PAUSE)
                # Full jitter: with equal delays the same writers would conflict again.
                self._sleep(min(self._rng.uniform(0, pause), deadline.remaining()))
        raise Busy("the job is being changed by others, try again", retry_after=1)

    @contextmanager
    def _locked(self, ref: JobRef, deadline: Deadline, most_waiting: int | None) -> Iterator[None]:
        seconds = deadline.remaining()
        with self._locks.hold(ref, seconds, most_waiting=most_waiting) as is_held:
            if not is_held:
                raise Busy("too many requests for this job at once, try again", retry_after=1)
            yield
