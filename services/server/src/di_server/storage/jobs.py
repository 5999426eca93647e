"""DIJobs."""

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
    """Reads and patches jobs; errors are the API client's, but for jobs that are not served."""

    def __init__(self, *, kube: Kube, namespace: str | None, cache: ObjectCache[Job]) -> None:
        """`namespace` is the only one served; None means all."""
        self._kube = kube
        self._namespace = namespace
        self._cache = cache

    def cached(self, ref: JobRef) -> Job | None:
        """The job as the watch has shown it, or as this server wrote it since; None if it is
        not cached, which does not mean that there is none."""
        return self._cache.get(ref.namespace, ref.name)

    def all(self, namespace: str | None, deadline: Deadline) -> list[Job]:
        """Jobs of a namespace (None: of all that are served), by namespace and name."""
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
        """The job as etcd has it now.

        Raises:
            NoSuchJob: its namespace is not served.
        """
        if self._namespace not in (None, ref.namespace):
            raise NoSuchJob(f"no such job: {ref.id}")
        job = self._kube.get(DIJOBS, ref.name, ref.namespace, timeout=deadline.for_call())
        self._cache.put_newer(job)
        return job

    def patch_spec(self, ref: JobRef, operations: Sequence[Object], deadline: Deadline) -> Object:
        """Apply RFC 6902 operations; Conflict when they set a version that is no longer so."""
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
        """Apply an RFC 7396 patch to the status, which leaves the fields of others alone."""
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
        """Ask for as little as possible, to see whether the API server answers at all."""
        self._kube.list(
            DIJOBS,
            self._namespace,
            # No job has this name (names are no longer than 63), so nothing is sent back.
            field_selector=f"metadata.name={'x' * 64}",
            timeout=deadline.for_call(),
        )
