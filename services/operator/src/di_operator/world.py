"""What the operator knows of the cluster: the watches, and its own writes before they come back.

A watch is always a little behind. Deciding from it alone, the reconcile that follows a create
would not see the pod and create it again, and one that follows a status patch would count the same
failure again. So the answer of every write is put here at once, and an object is replaced only by
a newer one: resource versions of one resource grow with every change (KEP-5504 makes the
comparison part of the API; etcd has always given them out so).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from di_api.kube.resources import CONFIGMAPS, DIJOBS, PODS, SERVICES, Resource
from di_api.names import LABEL_JOB

from di_operator.controller import JobKey

# Objects deleted by us whose DELETED event is still to come; far more than are ever under way.
MAX_TOMBSTONES = 10_000
# A job of a thousand pods brings a thousand events, each worth a look at a thousand pods. Looks
# at large jobs wait for company: half a millisecond a pod, a fifth of a second at most.
SETTLE_PER_POD = 0.0005
SETTLE_MAX = 0.2
SETTLE_ABOVE = 16


class Source(Protocol):
    """The part of a watch cache that is used here."""

    @property
    def resource_version(self) -> str:
        """The version up to which the cache is complete."""
        ...

    def get(self, namespace: str | None, name: str) -> dict[str, Any] | None:
        """Return the object as the watch last showed it."""
        ...

    def subscribe(self, callback: Callable[[str, dict[str, Any]], None]) -> object:
        """Call `callback(type, object)` for every change from now on."""
        ...


class Shelf:
    """The objects of one resource, by name and by the job they belong to."""

    def __init__(self, job_name: Callable[[Mapping[str, Any]], str | None]) -> None:
        self._job_name = job_name
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self._by_job: dict[JobKey, dict[str, dict[str, Any]]] = {}
        # Written by us and not yet shown by the watch; see `expire`.
        self._unconfirmed: dict[tuple[str, str], dict[str, Any]] = {}
        self._tombstones: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: tuple[str, str]) -> dict[str, Any] | None:
        """Return the object of that namespace and name."""
        return self._objects.get(key)

    def of_job(self, key: JobKey) -> Iterable[dict[str, Any]]:
        """Return the objects that name the job."""
        return tuple(self._by_job.get(key, {}).values())

    def count(self, key: JobKey) -> int:
        """Return how many objects name the job."""
        return len(self._by_job.get(key, ()))

    def values(self) -> Iterable[dict[str, Any]]:
        """Return all objects."""
        return self._objects.values()

    def put(self, body: dict[str, Any], *, confirmed: bool) -> bool:
        """Take in an object; False if it is no news.

        `confirmed` tells that it came from the watch, not from one of our writes.
        """
        key = _key(body)
        old = self._objects.get(key)
        if confirmed:
            self._unconfirmed.pop(key, None)
        if body["metadata"]["uid"] in self._tombstones:
            return False
        if old is not None and _version(old) >= _version(body):
            return False
        if old is not None:
            self._unlink(key, old)
        self._objects[key] = body
        job = self.job_key(body)
        if job is not None:
            self._by_job.setdefault(job, {})[key[1]] = body
        if not confirmed:
            self._unconfirmed[key] = body
        return True

    def remove(self, key: tuple[str, str], uid: str, *, confirmed: bool) -> bool:
        """Take in that the object is gone; an empty `uid` means whatever has the name.

        An object of another UID stays: it is a later one of the same name.
        """
        if confirmed:
            self._tombstones.pop(uid, None)
        elif uid:
            # Events of its last moments may still be on their way and must not revive it.
            self._tombstones[uid] = None
            if len(self._tombstones) > MAX_TOMBSTONES:
                self._tombstones.popitem(last=False)
        old = self._objects.get(key)
        if old is None or (uid and old["metadata"]["uid"] != uid):
            return False
        del self._objects[key]
        self._unconfirmed.pop(key, None)
        self._unlink(key, old)
        return True

    def expire(self, source: Source) -> list[dict[str, Any]]:
        """Drop objects of ours that the watch never showed although it is past them.

        Such an object was deleted while the watch was broken: no event of it will ever come, and
        a job would wait for that pod for ever.
        """
        version = int(source.resource_version or 0)
        gone = [
            body
            for key, body in self._unconfirmed.items()
            if _version(body) <= version and source.get(*key) is None
        ]
        for body in gone:
            self.remove(_key(body), body["metadata"]["uid"], confirmed=True)
        return gone

    def job_key(self, body: Mapping[str, Any]) -> JobKey | None:
        """Return the key of the job the object names."""
        name = self._job_name(body)
        return None if name is None else JobKey(body["metadata"]["namespace"], name)

    def _unlink(self, key: tuple[str, str], old: dict[str, Any]) -> None:
        job = self.job_key(old)
        if job is None or job not in self._by_job:
            return
        self._by_job[job].pop(key[1], None)
        if not self._by_job[job]:
            del self._by_job[job]


class World:
    """Jobs and their objects; tells `wake(key, delay)` which job wants a look."""

    def __init__(
        self,
        *,
        sources: Mapping[Resource, Source],
        trim: Callable[[Resource, dict[str, Any]], dict[str, Any]],
        wake: Callable[[JobKey, float], None],
    ) -> None:
        self._sources = sources
        self._trim = trim
        self._wake = wake
        self._shelves = {resource: Shelf(_labelled_job) for resource in sources}
        self._shelves[DIJOBS] = Shelf(_own_name)
        for resource, source in sources.items():
            source.subscribe(self._listener(resource))

    def job(self, key: JobKey) -> dict[str, Any] | None:
        """Return the job of that name, None if there is none."""
        return self._shelves[DIJOBS].get(key)

    def jobs(self) -> Iterable[dict[str, Any]]:
        """Return all jobs."""
        return self._shelves[DIJOBS].values()

    def pods(self, key: JobKey) -> Iterable[dict[str, Any]]:
        """Return the pods labelled with the job's name."""
        return self._shelves[PODS].of_job(key)

    def services(self, key: JobKey) -> Iterable[dict[str, Any]]:
        """Return the Services labelled with the job's name."""
        return self._shelves[SERVICES].of_job(key)

    def configmaps(self, key: JobKey) -> Iterable[dict[str, Any]]:
        """Return the ConfigMaps labelled with the job's name."""
        return self._shelves[CONFIGMAPS].of_job(key)

    def size(self, resource: Resource) -> int:
        """Return the number of objects known."""
        return len(self._shelves[resource])

    def observe(self, resource: Resource, body: Mapping[str, Any]) -> None:
        """Take in an object as a write or a read returned it. Wakes nobody: the caller decides."""
        self._shelves[resource].put(self._trim(resource, dict(body)), confirmed=False)

    def forget(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """Take in that an object is gone; an empty `uid` means whatever has the name."""
        self._shelves[resource].remove((namespace, name), uid, confirmed=False)

    def expire(self) -> None:
        """Drop own writes that vanished unseen; call after every full re-list."""
        for resource, source in self._sources.items():
            shelf = self._shelves[resource]
            for body in shelf.expire(source):
                self._notify(resource, body)

    def wake_all(self) -> None:
        """Ask for a look at every job, as the periodic poll does."""
        for job in self.jobs():
            self._wake(JobKey(job["metadata"]["namespace"], job["metadata"]["name"]), 0.0)

    def _listener(self, resource: Resource) -> Callable[[str, dict[str, Any]], None]:
        shelf = self._shelves[resource]

        def listen(kind: str, body: dict[str, Any]) -> None:
            if kind == "DELETED":
                news = shelf.remove(_key(body), body["metadata"]["uid"], confirmed=True)
            else:
                news = shelf.put(body, confirmed=True)
            if news:
                self._notify(resource, body)

        return listen

    def _notify(self, resource: Resource, body: Mapping[str, Any]) -> None:
        key = self._shelves[resource].job_key(body)
        if key is None:
            return
        delay = 0.0
        if resource == PODS:
            pods = self._shelves[PODS].count(key)
            if pods > SETTLE_ABOVE:
                delay = min(SETTLE_MAX, pods * SETTLE_PER_POD)
        self._wake(key, delay)


def _key(body: Mapping[str, Any]) -> tuple[str, str]:
    metadata = body["metadata"]
    return metadata["namespace"], metadata["name"]


def _version(body: Mapping[str, Any]) -> int:
    return int(body["metadata"]["resourceVersion"])


def _own_name(body: Mapping[str, Any]) -> str | None:
    return str(body["metadata"]["name"])


def _labelled_job(body: Mapping[str, Any]) -> str | None:
    name = (body["metadata"].get("labels") or {}).get(LABEL_JOB)
    return None if name is None else str(name)
