"""Reads of jobs' pods."""

from __future__ import annotations

from typing import Final

from di_api.names import LABEL_JOB, LABEL_OPERATOR, OPERATOR_NAME
from di_kube.errors import NotFound
from di_kube.resources import PODS
from di_server.deadline import Deadline
from di_server.model.references import JobRef
from di_server.storage.caches import BY_IP, BY_JOB
from di_server.storage.kube import Kube, Object
from di_server.storage.object_cache import ObjectCache

_OURS: Final = f"{LABEL_OPERATOR}={OPERATOR_NAME}"


class PodStore:
    """Reads pods; errors are the API client's."""

    def __init__(self, *, kube: Kube, namespace: str | None, cache: ObjectCache[Object]) -> None:
        """`namespace` is the only one served; None means all."""
        self._kube = kube
        self._namespace = namespace
        self._cache = cache

    @property
    def synced(self) -> bool:
        """Return whether the watch has delivered every pod, so that a missing one does not
        exist.
        """
        return self._cache.synced

    def cached(self, namespace: str, name: str) -> Object | None:
        """Return a pod from the watch, None if it is not cached."""
        return self._cache.get(namespace, name)

    def cached_of(self, ref: JobRef) -> list[Object]:
        """Return every cached pod with the job's label."""
        return self._cache.by_index(BY_JOB, (ref.namespace, ref.name))

    def cached_at(self, ip: str) -> list[Object]:
        """Return the cached pods at one address, of any job."""
        return self._cache.by_index(BY_IP, ip)

    def of_job(self, ref: JobRef, deadline: Deadline) -> list[Object]:
        """Return every pod with the job's label; only the owner's UID shows whose it is."""
        return self._list(ref.namespace, _of(ref), None, deadline)

    def at(self, ip: str, namespace: str | None, deadline: Deadline) -> list[Object]:
        """Return the pods of all jobs at one address, in one namespace or in all that are
        served.
        """
        return self._list(namespace or self._namespace, _OURS, _at(ip), deadline)

    def current(self, namespace: str, name: str, deadline: Deadline) -> Object | None:
        """Return a pod from the cache, or else from the API server; None: it does not exist."""
        return self.cached(namespace, name) or self.find(namespace, name, deadline)

    def find(self, namespace: str, name: str, deadline: Deadline) -> Object | None:
        """Return a pod, None if it does not exist."""
        try:
            return self._kube.get(PODS, name, namespace, timeout=deadline.for_call())
        except NotFound:
            return None

    def _list(
        self, namespace: str | None, labels: str, fields: str | None, deadline: Deadline
    ) -> list[Object]:
        pods, _ = self._kube.list(
            PODS,
            namespace,
            label_selector=labels,
            field_selector=fields,
            timeout=deadline.for_call(),
        )
        return pods


def _of(ref: JobRef) -> str:
    return f"{LABEL_JOB}={ref.name}"


def _at(ip: str) -> str:
    return f"status.podIP={ip}"
