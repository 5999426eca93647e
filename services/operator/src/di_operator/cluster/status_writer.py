"""Writes a job's status: one patch, only what changed, only onto the job that was decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from di_api.names import OPERATOR_NAME
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Conflict
from di_kube.resources import DIJOBS, Resource
from di_operator.lifecycle.observed.status import merge_patch
from di_operator.process.concurrency import Tenants, Writers
from di_operator.process.controller import JobKey


class Writes(Protocol):
    """Where the answer is put, so that the next decision knows of it."""

    def observe(self, resource: Resource, body: dict[str, Any]) -> None:
        """Take in an object as the API server returned it."""
        ...


class Observer(Protocol):
    """What the writer tells the metrics."""

    def status_written(self, result: str) -> None:
        """Count one status patch: `ok`, `conflict` or `error`."""
        ...


class StatusWriter:
    """Patches `/status` of jobs."""

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
        """Make `status` the operator's part of the job's status; False if it is already.

        The patch carries the job's uid and resourceVersion. Without them a status decided from
        an old read (a stale cache, a leader that was stopped) would undo a newer one: a counted
        failure would be counted again, a new job of the same name would inherit the old one's
        end.

        Raises:
            NotLeading: the lease was lost.
            Conflict: the job changed since it was read; decide again from a new read.
            ApiError: everything else (NotFound when the job is gone).
        """
        changed = merge_patch(job.get("status") or {}, status)
        if not changed:
            return False
        self._check_lease()
        metadata = job["metadata"]
        patch = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": changed,
        }
        try:
            async with self._tenants.writing(metadata["namespace"]):
                with self._writers.writing(JobKey(metadata["namespace"], metadata["name"])):
                    patched = await self._client.patch(
                        DIJOBS,
                        metadata["name"],
                        patch,
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
        self._writes.observe(DIJOBS, patched)
        return True
