"""Pods of jobs."""

from __future__ import annotations

from di_api.kube.errors import NotFound
from di_api.kube.resources import PODS
from di_api.names import LABEL_JOB
from di_server.deadline import Deadline
from di_server.decisions.job_id import JobRef
from di_server.storage.kube import Kube, Object


class PodStore:
    """Reads pods; errors are the API client's."""

    def __init__(self, *, kube: Kube) -> None:
        self._kube = kube

    def of_job(self, ref: JobRef, deadline: Deadline) -> list[Object]:
        """Every pod labelled as the job's; whose they are only the owner's UID tells."""
        return self._list(ref, None, deadline)

    def of_job_at(self, ref: JobRef, ip: str, deadline: Deadline) -> list[Object]:
        """Those at one address."""
        return self._list(ref, f"status.podIP={ip}", deadline)

    def find(self, namespace: str, name: str, deadline: Deadline) -> Object | None:
        """One pod, None when it is gone."""
        try:
            return self._kube.get(PODS, name, namespace, timeout=deadline.for_call())
        except NotFound:
            return None

    def _list(self, ref: JobRef, fields: str | None, deadline: Deadline) -> list[Object]:
        pods, _ = self._kube.list(
            PODS,
            ref.namespace,
            label_selector=f"{LABEL_JOB}={ref.name}",
            field_selector=fields,
            timeout=deadline.for_call(),
        )
        return pods
