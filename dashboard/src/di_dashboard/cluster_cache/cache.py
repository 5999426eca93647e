"""The cluster in memory, filled by one watch, for all threads that render pages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from di_api.explain.claims import claims_of, is_of_claim
from di_api.field_error import mapping
from di_api.ownership import controlling_job
from di_api.pods.main_container import ENDED
from di_cli.views.jobs import Key, key_of
from di_dashboard.cluster_cache.entry import Entry, Object, entry_of
from di_dashboard.cluster_cache.feed import Feed
from di_dashboard.history.seen import Seen
from di_kube.cache import DELETED
from di_kube.packed import unpacked

JOBS_TOPIC: Final = "jobs"
CLUSTER_TOPIC: Final = "cluster"
STATE_TOPIC: Final = "state"


def job_topic(namespace: str, name: str) -> str:
    """Return the topic of changes to one job, its pods and events."""
    return f"job {namespace}/{name}"


class ClusterCache:
    """Jobs, pods, events and nodes. Written by the watch's thread, read by all threads.

    Objects are shared and must not be modified.
    """

    def __init__(self, *, feed: Feed, seen: Seen, now: Callable[[], datetime]) -> None:
        self._feed = feed
        self._seen = seen
        self._now = now
        self._lock = threading.Lock()
        self._entries: dict[Key, Entry] = {}
        self._sorted: list[Entry] | None = None
        self._live_pods: dict[Key, Object] = {}
        self._pods_of: dict[Key, dict[str, Object]] = {}
        self._events: dict[str, dict[str, Object]] = {}
        self._nodes: dict[str, Object] = {}
        self._version = 0
        self._ready: dict[str, bool] = {}
        self._unread: dict[str, str] = {}
        self._away: dict[str, bool] = {}
        self._complete = threading.Event()

    @property
    def version(self) -> int:
        """Return a number that grows with each change."""
        return self._version

    @property
    def is_complete(self) -> bool:
        """Return whether everything that the user can read has been read once."""
        return self._complete.is_set()

    def wait_until_complete(self, seconds: float) -> bool:
        """Wait until `is_complete`; return False after `seconds`."""
        return self._complete.wait(seconds)

    @property
    def unread(self) -> dict[str, str]:
        """Return the kinds that the user cannot read, with the API server's message."""
        with self._lock:
            return dict(self._unread)

    @property
    def is_away(self) -> bool:
        """Return whether the API server has not responded for a while."""
        with self._lock:
            return any(self._away.values())

    def expect(self, plurals: Iterable[str]) -> None:
        """Set the kinds that are watched."""
        with self._lock:
            self._ready = dict.fromkeys(plurals, False)
            self._complete.clear()

    def mark(self, plural: str, *, ready: bool, refused: str, away: bool) -> None:
        """Record the state of a watch."""
        with self._lock:
            before = self._state_of(plural)
            self._ready[plural] = ready
            if refused and not ready:
                self._unread[plural] = refused
            else:
                self._unread.pop(plural, None)
            self._away[plural] = away
            if all(done or each in self._unread for each, done in self._ready.items()):
                self._complete.set()
            if before == self._state_of(plural):
                return
            self._version += 1
        self._feed.publish([STATE_TOPIC])

    def entries(self) -> list[Entry]:
        """Return all jobs, the newest first."""
        with self._lock:
            if self._sorted is None:
                by_name = sorted(self._entries.values(), key=lambda e: (e.namespace, e.name))
                self._sorted = sorted(by_name, key=lambda e: e.created, reverse=True)
            return self._sorted

    def job(self, namespace: str, name: str) -> Object | None:
        """Return the job with that name."""
        with self._lock:
            found = self._entries.get((namespace, name))
            return found.job if found else None

    def pods_of(self, namespace: str, name: str) -> list[Object]:
        """Return the pods of a job."""
        with self._lock:
            found = list(self._pods_of.get((namespace, name), {}).values())
        return [*map(unpacked, found)]

    def events_of(self, namespace: str, name: str) -> list[Object]:
        """Return the events of a job and its pods, deleted pods included, and of their claims."""
        with self._lock:
            found = list(self._events.get(namespace, {}).values())
            claims = claims_of(self._pods_of.get((namespace, name), {}).values())
            return [
                event
                for event in found
                if self._job_of(event, namespace) == name or is_of_claim(event, claims)
            ]

    def live_pods(self) -> list[Object]:
        """Return the pods that have not ended: those use nodes."""
        with self._lock:
            return list(self._live_pods.values())

    def nodes(self) -> list[Object]:
        """Return all nodes."""
        with self._lock:
            return list(self._nodes.values())

    # ------------------------------------------------------------ by the thread that watches

    def on_job(self, kind: str, job: Object) -> None:
        """Process an event of the watch of jobs."""
        namespace, name = key = key_of(job)
        now = self._now()
        with self._lock:
            self._sorted = None
            self._version += 1
            if kind == DELETED:
                self._entries.pop(key, None)
            else:
                self._entries[key] = entry_of(job)
        if kind == DELETED:
            self._seen.forget(job)
        else:
            self._seen.look(job, now)
        self._feed.publish([JOBS_TOPIC, CLUSTER_TOPIC, job_topic(namespace, name)])

    def on_pod(self, kind: str, pod: Object) -> None:
        """Process an event of the watch of pods."""
        namespace, name = key = key_of(pod)
        job = _owner_of(pod)
        has_ended = mapping(pod.get("status")).get("phase") in ENDED
        with self._lock:
            self._version += 1
            before = self._live_pods.pop(key, None)
            if kind != DELETED and not has_ended:
                self._live_pods[key] = pod
            if job:
                pods = self._pods_of.setdefault((namespace, job), {})
                pods.pop(name, None)
                if kind != DELETED:
                    pods[name] = pod
                elif not pods:
                    del self._pods_of[namespace, job]
        topics = [job_topic(namespace, job)] if job else []
        # A pod that had ended before held nothing.
        now = None if kind == DELETED or has_ended else _holds(pod)
        if (None if before is None else _holds(before)) != now:
            topics.append(CLUSTER_TOPIC)
        self._feed.publish(topics)

    def on_event(self, kind: str, event: Object) -> None:
        """Process an event of the watch of Events."""
        namespace, name = key_of(event)
        about = mapping(event.get("involvedObject"))
        if about.get("kind") not in ("DIJob", "Pod", "PersistentVolumeClaim"):
            return
        with self._lock:
            self._version += 1
            events = self._events.setdefault(namespace, {})
            events.pop(name, None)
            if kind != DELETED:
                events[name] = event
            jobs = self._jobs_of(event, namespace)
        if jobs:
            self._feed.publish([job_topic(namespace, job) for job in jobs])

    def on_node(self, kind: str, node: Object) -> None:
        """Process an event of the watch of nodes."""
        _, name = key_of(node)
        with self._lock:
            before = self._nodes.pop(name, None)
            if kind != DELETED:
                self._nodes[name] = node
            if before is not None and kind != DELETED and _same(before, node):
                return
            self._version += 1
        self._feed.publish([CLUSTER_TOPIC])

    def _state_of(self, plural: str) -> tuple[object, ...]:
        return (self._ready.get(plural), self._unread.get(plural), self._away.get(plural))

    def _jobs_of(self, event: Object, namespace: str) -> list[str]:
        """Return the jobs whose pages show an event. Several can mount one claim; what becomes of
        it is no news to a pod that has ended.
        """
        if mapping(event.get("involvedObject")).get("kind") != "PersistentVolumeClaim":
            job = self._job_of(event, namespace)
            return [job] if job else []
        mounting = {
            _owner_of(pod)
            for (place, _), pod in self._live_pods.items()
            if place == namespace and is_of_claim(event, claims_of([pod]))
        }
        return sorted(mounting - {""})

    def _job_of(self, event: Object, namespace: str) -> str:
        """Return the job of an event, or of its pod; empty if there is none. The labels of a
        deleted pod are gone, but its name begins with the job's.
        """
        about = mapping(event.get("involvedObject"))
        name = str(about.get("name") or "")
        if about.get("kind") == "DIJob":
            return name
        if about.get("kind") != "Pod":
            return ""
        while "-" in name:
            name = name.rpartition("-")[0]
            if (namespace, name) in self._entries:
                return name
        return ""


def _owner_of(pod: Object) -> str:
    """Return the name of the job that controls a pod; empty without one."""
    owner = controlling_job(pod)
    return str(owner.get("name")) if owner else ""


def _holds(pod: Object) -> tuple[object, object]:
    """Return the parts of a pod that the page of the cluster shows."""
    return mapping(pod.get("spec")).get("nodeName"), mapping(pod.get("status")).get("phase")


def _same(one: Object, other: Object) -> bool:
    return all(one.get(key) == other.get(key) for key in ("spec", "status"))
