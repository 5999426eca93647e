"""Writes a job's status: one update, conditional on the job that was decided on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from di_api.names import OPERATOR_NAME
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Conflict
from di_kube.resources import DIJOBS, Resource
from di_operator.lifecycle.observed.status import with_owned
from di_operator.process.concurrency import Tenants, Writers
from di_operator.process.controller import JobKey

_IDENTITY: Final = ("name", "namespace", "uid", "resourceVersion")


class Writes(Protocol):
    """The cache that stores the response, so that the next decision includes it."""

    def observe(self, resource: Resource, body: dict[str, Any]) -> None:
        """Store an object as the API server returned it."""
        ...


class Observer(Protocol):
    """The metrics that the writer updates."""

    def status_written(self, result: str) -> None:
        """Count one status write: `ok`, `conflict` or `error`."""
        ...


class StatusWriter:
    """Updates `/status` of jobs."""

    def __init__(
        self,
        *,
        client: KubeClient,
        writes: Writes,
        writers: Writers,
        tenants: Tenants,
        check_lease: Callable[[], None],
        observer: Observer,
    ) -> None:
        self._client = client
        self._writes = writes
        self._writers = writers
        self._tenants = tenants
        self._check_lease = check_lease
        self._observer = observer

    async def write(self, job: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
        """Write `status` as the operator's part of the job's status; return False if it is
        unchanged.

        It is an update without the spec, which the API server takes from the object that it has:
        a merge patch costs it a quarter more. The fields of other writers are sent as they were
        read.

        The update carries the job's uid and resourceVersion. Without them a status from an outdated
        read (a stale cache, a leader that was suspended) would overwrite a newer one. A failure
        would then be counted twice, or a new job would inherit the end of an earlier job of the
        same name.

        Raises:
            NotLeading: the lease was lost.
            Conflict: the job changed since it was read; decide again from a new read.
            ApiError: any other error (NotFound if the job is gone).
        """
        present = job.get("status") or {}
        wanted = with_owned(present, status)
        if wanted == present:
            return False
        self._check_lease()
        metadata = job["metadata"]
        body = {
            "apiVersion": DIJOBS.api_version,
            "kind": DIJOBS.kind,
            "metadata": {key: metadata[key] for key in _IDENTITY},
            "status": wanted,
        }
        key = JobKey(metadata["namespace"], metadata["name"])
        # New counts are one write and no step: a job that creates its pods is not slowed down by
        # the counts of another one, of which a cluster of many jobs writes some at any time.
        is_step = wanted.get("phase") != present.get("phase")
        try:
            async with self._tenants.writing(key.namespace, is_company=is_step):
                with self._writers.writing(key, is_company=is_step):
                    written = await self._client.replace(
                        DIJOBS,
                        metadata["name"],
                        body,
                        metadata["namespace"],
                        subresource="status",
                        field_manager=OPERATOR_NAME,
                    )
        except Conflict:
            self._observer.status_written("conflict")
            raise
        except ApiError:
            self._observer.status_written("error")
            raise
        self._observer.status_written("ok")
        self._writes.observe(DIJOBS, written)
        return True
