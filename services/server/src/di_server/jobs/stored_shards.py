"""Data shards of jobs, kept in their status: each request is answered after its write."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from di_kube.errors import Conflict
from di_server.access.grants import Grant
from di_server.deadline import Clock, Deadline
from di_server.jobs.shards import writing
from di_server.jobs.shards.asked import Restore, Take
from di_server.jobs.shards.stored import UID_KEPT
from di_server.model.pod import has_ended
from di_server.model.references import JobRef
from di_server.problems import Problem
from di_server.storage.coalescing import Coalescer, Pace
from di_server.storage.jobs import JobStore
from di_server.storage.pods import PodStore
from di_server.storage.updates import JobUpdates

PACE: Final = Pace(interval=0.02, burst=50, share=0.5)
"""Up to 50 writes a second for each job, in half of the time: below that a request is not
delayed. A thousand workers make a write slow; without the share they took a whole processor of the
API server, which belongs to all jobs.
"""
_KNOWN: Final = 16
"""Number of jobs whose last written state is kept, which saves reading it for the next write."""

_Outcome = Problem | dict[str, Any]


class StoredShards:
    """Serves requests for data shards. Requests that arrive during a write share the next one."""

    def __init__(
        self,
        *,
        jobs: JobStore,
        pods: PodStore,
        updates: JobUpdates,
        waiting: int,
        clock: Clock,
        now: Callable[[], datetime],
        sleep: Callable[[float], None],
    ) -> None:
        """`waiting` is the maximum number of requests that wait for the pace of the writes."""
        self._jobs = jobs
        self._pods = pods
        self._updates = updates
        self._now = now
        self._lock = threading.Lock()
        self._known: OrderedDict[JobRef, writing.State] = OrderedDict()
        self._writes = Coalescer(
            self._write,
            places=threading.Semaphore(waiting),
            clock=clock,
            sleep=sleep,
            pace=PACE,
        )

    def serve(self, grant: Grant, asked: Take | Restore, deadline: Deadline) -> dict[str, Any]:
        """Return the answer to a request, after the write: no server that ends has given out what
        the job's status does not show.

        Raises:
            Problem: the request cannot be served.
        """
        pod = grant.caller if grant.pod else ""
        request = writing.Request(asked=asked, pod=pod, check=grant.check)
        found = self._writes.submit(grant.ref, request, deadline)
        if isinstance(found, Problem):
            raise found
        return found

    def position(self, grant: Grant, name: str, deadline: Deadline) -> dict[str, Any]:
        """Return the position in a data set, from the API server: checkpoints have it."""
        job = self._jobs.get(grant.ref, deadline)
        grant.check(job)
        return writing.described(job, name, self._now())

    def _write(
        self, ref: JobRef, requests: Sequence[writing.Request], deadline: Deadline
    ) -> Sequence[_Outcome]:
        with self._lock:
            known = self._known.pop(ref, None)
        found = self._write_to(known, ref, requests, deadline) if known is not None else None
        return found if found is not None else self._read_and_write(ref, requests, deadline)

    def _write_to(
        self,
        known: writing.State,
        ref: JobRef,
        requests: Sequence[writing.Request],
        deadline: Deadline,
    ) -> Sequence[_Outcome] | None:
        """Write to the state that this server wrote last; None if that may not be the present one.

        Only a write proves that the job is unchanged, so a result without one does not count.
        """
        written = writing.status_patch(known, requests, self._now(), self._live_pods(ref))
        if written.patch is None or any(isinstance(each, Problem) for each in written.outcomes):
            return None
        try:
            stored = self._jobs.patch_status(ref, written.patch, deadline)
        except Conflict:
            return None
        writing.check_stored(stored)
        self._remember(ref, written.after(stored))
        return written.outcomes

    def _read_and_write(
        self, ref: JobRef, requests: Sequence[writing.Request], deadline: Deadline
    ) -> Sequence[_Outcome]:
        written = writing.Written(patch=None, outcomes=(), tables={})

        def decide(job: writing.Object) -> dict[str, Any] | None:
            nonlocal written
            state = writing.State(job=job)
            written = writing.status_patch(state, requests, self._now(), self._live_pods(ref))
            return written.patch

        def check(stored: writing.Object) -> None:
            writing.check_stored(stored)
            self._remember(ref, written.after(stored))

        self._updates.update_status(ref, decide, deadline, check=check)
        return written.outcomes

    def _remember(self, ref: JobRef, state: writing.State) -> None:
        with self._lock:
            self._known[ref] = state
            while len(self._known) > _KNOWN:
                self._known.popitem(last=False)

    def _live_pods(self, ref: JobRef) -> frozenset[str] | None:
        if not self._pods.synced:
            return None
        pods = (pod for pod in self._pods.cached_of(ref) if not has_ended(pod))
        return frozenset(pod["metadata"]["uid"][:UID_KEPT] for pod in pods)
