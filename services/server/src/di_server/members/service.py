"""Operations on the board of a job's members."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from di_api.defaults import with_defaults
from di_api.names import LABEL_TASK_NAME
from di_api.ownership import is_controlled_by
from di_server.access.grants import Grant
from di_server.deadline import Deadline
from di_server.members.board import Answer, Lives
from di_server.members.entry import HEARTBEAT, LIFETIME, Entry
from di_server.members.exchange import MAX_TOLD, News
from di_server.members.requests import MembersRequest
from di_server.members.shared import Members, Watched
from di_server.model.pod import is_leaving
from di_server.model.tasks import check_has_tasks, place_of
from di_server.problems import NotNow, OutOfBounds
from di_server.rest.deferred import Deferred
from di_server.storage.jobs import JobStore
from di_server.storage.kube import Object
from di_server.storage.object_cache import ObjectCache
from di_server.storage.pods import PodStore
from di_server.storage.updates import POSSIBLY_STALE


class MemberService:
    """Each method raises a Problem, or an error of the API client.

    Args:
        server: name of this process among its peers.
    """

    def __init__(self, *, members: Members, jobs: JobStore, pods: PodStore, server: str) -> None:
        self._members = members
        self._jobs = jobs
        self._pods = pods
        self._server = server

    def put(self, grant: Grant, pod_name: str, says: bytes, deadline: Deadline) -> dict[str, float]:
        """Store the content that a pod of the job sends; return when the pod has to repeat it."""
        job = self._checked(grant, check_has_tasks, deadline)
        job_uid: str = job["metadata"]["uid"]
        pod = self._pods.current(grant.ref.namespace, pod_name, deadline)
        if pod is None or not is_controlled_by(pod, job_uid):
            raise OutOfBounds(f"{pod_name} is no pod of job {grant.ref.id}")
        if is_leaving(pod):
            raise NotNow(f"{pod_name} is ending")
        metadata = pod["metadata"]
        self._members.put(
            Entry(
                namespace=grant.ref.namespace,
                job_uid=job_uid,
                pod=pod_name,
                pod_uid=metadata["uid"],
                task=(metadata.get("labels") or {}).get(LABEL_TASK_NAME, ""),
                says=says,
            )
        )
        return {"heartbeatSeconds": HEARTBEAT, "lifetimeSeconds": LIFETIME}

    def list(self, grant: Grant, asked: MembersRequest, deadline: Deadline) -> object:
        """Return the members' entries, or (Deferred) their next state."""
        job = self._checked(grant, partial(_check_task, asked.task), deadline)
        watched = Watched(
            job_uid=job["metadata"]["uid"],
            task=asked.task,
            known=asked.known or "",
            changes=asked.changes,
        )
        answer = self._members.answer(watched)
        if answer.generation != asked.known or not asked.wait:
            return answer.data

        def subscribe(wake: Callable[[object], None]) -> Callable[[], None]:
            return self._members.subscribe(watched, lambda found: wake(_data(found)))

        return Deferred(answer.data, asked.wait, subscribe)

    def exchange(self, news: News) -> dict[str, Any]:
        """Store the news of another server, and return the news for it."""
        self._members.merge(news.server, news.entries)
        since = news.known_change if news.known_server == self._server else 0
        return tell(self._members, self._server, since, to=news.server).dump()

    def _checked(
        self, grant: Grant, check: Callable[[Mapping[str, Any]], None], deadline: Deadline
    ) -> Mapping[str, Any]:
        cached = self._jobs.cached(grant.ref)
        if cached is not None:
            with suppress(*POSSIBLY_STALE):
                grant.check(cached.raw)
                check(cached.raw)
                return cached.raw
        job = self._jobs.get(grant.ref, deadline)
        grant.check(job)
        check(job)
        return job


def tell(members: Members, server: str, since: int, *, to: str) -> News:
    """Return the news for another server, which knows everything up to a change."""
    told, change, more = members.changed_since(since, beside=to, most_bytes=MAX_TOLD)
    return News(server=server, entries=told, change=change, more=more)


def lives(pods: ObjectCache[Object]) -> Lives:
    """Return a function that tests whether the pod of an entry exists, according to the watch."""

    def judge(entry: Entry) -> bool:
        if not pods.synced:
            # A missing pod can be new.
            return True
        pod = pods.get(entry.namespace, entry.pod)
        return (
            pod is not None
            and pod["metadata"]["uid"] == entry.pod_uid
            and is_controlled_by(pod, entry.job_uid)
            and not is_leaving(pod)
        )

    return judge


def _data(answer: Answer) -> object:
    return answer.data


def _check_task(task: str | None, job: Mapping[str, Any]) -> None:
    check_has_tasks(job)
    if task is not None:
        place_of(with_defaults(job["spec"]).get("tasks") or [], task)
