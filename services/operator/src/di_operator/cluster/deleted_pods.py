"""Succeeded pods that are gone before the status of their job has their indexes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from di_api.ownership import controlling_job
from di_api.phase import Phase, has_finished
from di_kube.cache import DELETED, WatchCache
from di_operator.lifecycle.observed.pods import Pod, has_succeeded

MOST_PODS: Final = 10_000
"""Pods of all jobs that are kept; beyond that the job that has waited longest loses its own. As
many succeeded pods are remembered.
"""


class DeletedPods:
    """The last states of succeeded pods that were deleted, for the next reconcile of their job.

    The status gets completed indexes some seconds late. A pod that is evicted in between would
    run again without this.
    """

    def __init__(self, jobs: WatchCache) -> None:
        self._jobs = jobs
        self._of_jobs: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._count = 0
        # UIDs of pods that had succeeded when nothing had deleted them yet, the oldest first.
        self._succeeded: dict[str, None] = {}

    def follow(self, kind: str, raw: Mapping[str, Any]) -> None:
        """Keep a pod that is deleted after it has succeeded. A subscriber of the cache of pods."""
        uid = raw["metadata"]["uid"]
        if kind != DELETED and "deletionTimestamp" not in raw["metadata"]:
            if (raw.get("status") or {}).get("phase") == Phase.SUCCEEDED:
                self._note(uid)
            return
        # A program that ends by its SIGTERM often does so in the same second, with exit code 0. So
        # the times of a pod that is being deleted prove less than what was seen before.
        is_evicted = uid in self._succeeded
        if kind == DELETED:
            self._succeeded.pop(uid, None)
        elif not is_evicted:
            return
        if (job := self._unfinished_job_of(raw)) is None:
            return
        pod = Pod.read(raw)
        if not is_evicted and not has_succeeded(pod):
            return
        found = self._of_jobs.setdefault(job, {})
        self._count += pod.uid not in found
        found[pod.uid] = raw
        if self._count > MOST_PODS:
            self.forget(next(iter(self._of_jobs)))

    def _note(self, uid: str) -> None:
        self._succeeded[uid] = None
        if len(self._succeeded) > MOST_PODS:
            del self._succeeded[next(iter(self._succeeded))]

    def of_job(self, uid: str) -> Collection[Mapping[str, Any]]:
        """Return the deleted pods of a job that no status has counted yet."""
        return [*self._of_jobs.get(uid, {}).values()]

    def forget(self, job: str, pods: Iterable[str] | None = None) -> None:
        """Forget pods of a job by UID, or all."""
        found = self._of_jobs.get(job)
        if found is None:
            return
        for uid in [*found] if pods is None else pods:
            self._count -= found.pop(uid, None) is not None
        if not found:
            del self._of_jobs[job]

    def _unfinished_job_of(self, raw: Mapping[str, Any]) -> str | None:
        """Return the UID of the job that controls a pod; None if there is none, or it has ended."""
        owner = controlling_job(raw)
        if owner is None:
            return None
        job = self._jobs.get(raw["metadata"]["namespace"], owner["name"])
        if job is None or job["metadata"]["uid"] != owner["uid"]:
            return None
        return None if has_finished(job) else owner["uid"]
