"""Reads and patches of DIJobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from di_api.names import SERVER_NAME
from di_kube.resources import DIJOBS
from di_server.deadline import Deadline
from di_server.model.job import Job
from di_server.model.references import JobRef
from di_server.problems import NoSuchJob
from di_server.storage.kube import Kube, Object
from di_server.storage.object_cache import ObjectCache

_JSON_PATCH: Final = "application/json-patch+json"
_MERGE_PATCH: Final = "application/merge-patch+json"


class JobStore:
    """Reads and patches jobs; errors are the API client's, except for jobs that are not served."""

    def __init__(self, *, kube: Kube, namespace: str | None, cache: ObjectCache[Job]) -> None:
        """`namespace` is the only one served; None means all."""
        self._kube = kube
        self._namespace = namespace
        self._cache = cache

    def cached(self, ref: JobRef) -> Job | None:
        """Return the job from the watch, or from this server's later write; None if it is not
        cached, which does not mean that it does not exist.
        """
        return self._cache.get(ref.namespace, ref.name)

    def all(self, namespace: str | None, deadline: Deadline) -> list[Job]:
        """Return the jobs of a namespace (None: of all that are served), by namespace and name."""
        where = namespace or self._namespace
        if self._namespace not in (None, where):
            return []
        if self._cache.synced:
            found = [job for job in self._cache.values() if where in (None, job.ref.namespace)]
        else:
            jobs, _ = self._kube.list(DIJOBS, where, timeout=deadline.for_call())
            found = [Job(job) for job in jobs]
        return sorted(found, key=lambda job: (job.ref.namespace, job.ref.name))

    def get(self, ref: JobRef, deadline: Deadline) -> Object:
        """Return the job as etcd has it now.

        Raises:
            NoSuchJob: its namespace is not served.
        """
        if self._namespace not in (None, ref.namespace):
            raise NoSuchJob(f"no such job: {ref.id}")
        job = self._kube.get(DIJOBS, ref.name, ref.namespace, timeout=deadline.for_call())
        self._cache.put_newer(job)
        return job

    def patch_spec(self, ref: JobRef, operations: Sequence[Object], deadline: Deadline) -> Object:
        """Apply RFC 6902 operations; raises Conflict if they set an outdated version."""
        job = self._kube.patch(
            DIJOBS,
            ref.name,
            operations,
            ref.namespace,
            content_type=_JSON_PATCH,
            field_manager=SERVER_NAME,
            timeout=deadline.for_call(),
        )
        self._cache.put_newer(job)
        return job

    def patch_status(self, ref: JobRef, patch: Object, deadline: Deadline) -> Object:
        """Apply an RFC 7396 patch to the status; fields of other writers stay."""
        return self._kube.patch(
            DIJOBS,
            ref.name,
            patch,
            ref.namespace,
            content_type=_MERGE_PATCH,
            subresource="status",
            field_manager=SERVER_NAME,
            timeout=deadline.for_call(),
        )

    def probe(self, deadline: Deadline) -> None:
        """Send a minimal request, to check whether the API server responds."""
        self._kube.list(
            DIJOBS,
            self._namespace,
            # No job has this name (names have 63 characters at most), so the list is empty.
            field_selector=f"metadata.name={'x' * 64}",
            timeout=deadline.for_call(),
        )
