"""Pods that the watch reported as deleted although no deletion of them had come to its end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.names import LABEL_OPERATOR, OPERATOR_NAME
from di_api.ownership import controlling_job
from di_kube.cache import DELETED
from di_operator.process.controller import JobKey

MOST_PODS: Final = 10_000
"""Pods of all jobs that are remembered; beyond that the job that has waited longest loses its own.
As many restored pods are remembered.
"""
AT_ONCE: Final = 3
"""Reads of a pod that are not delayed after its labels were restored or refused."""
SHORTEST: Final = 0.5
LONGEST: Final = 15.0
"""Bounds in seconds of the delay between further reads of a pod that loses its label each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A pod that may exist without the operator's label; `due`: when to read it (monotonic)."""

    name: str
    uid: str
    due: float


def is_unexplained(metadata: Mapping[str, Any]) -> bool:
    """Return whether the last state of an object that a watch reported as deleted shows no complete
    deletion.

    The API server sets the grace period of a pod to 0 before it removes the pod, also if it is
    deleted by force. A pod that lost the label of the watch has no such state. Neither has a pod
    whose events the watch has missed.
    """
    if "deletionTimestamp" not in metadata:
        return True
    return bool(metadata.get("deletionGracePeriodSeconds"))


def is_labelled(found: Mapping[str, Any]) -> bool:
    """Return whether the operator's watches select an object."""
    labels = found["metadata"].get("labels") or {}
    return bool(labels.get(LABEL_OPERATOR) == OPERATOR_NAME)


class UnlabelledPods:
    """The pods that the watch of labelled pods lost, until a read shows whether they exist."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        """`monotonic` returns seconds."""
        self._monotonic = monotonic
        self._of_jobs: dict[JobKey, dict[str, Suspect]] = {}
        self._count = 0
        # How often the labels of a pod were restored or refused, and when last, by UID; the oldest
        # first.
        self._tries: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def follow(self, kind: str, raw: Mapping[str, Any]) -> None:
        """Keep a pod of a job that is lost, until the watch has it again. A subscriber of the cache
        of pods.
        """
        metadata = raw["metadata"]
        is_lost = kind == DELETED and is_unexplained(metadata)
        if not (is_lost or self._of_jobs):
            return
        name = (controlling_job(raw) or {}).get("name")
        if not isinstance(name, str):
            return
        key, uid = JobKey(metadata["namespace"], name), metadata["uid"]
        if is_lost:
            self._keep(key, Suspect(name=metadata["name"], uid=uid, due=self._due(uid)))
        else:
            self.forget(key, uid)

    @property
    def is_empty(self) -> bool:
        """Return whether there are none of any job."""
        return not self._of_jobs

    def due(self, key: JobKey) -> list[Suspect]:
        """Return the pods of a job that are to be read now."""
        now = self._monotonic()
        return [each for each in self._of_jobs.get(key, {}).values() if each.due <= now]

    def until_due(self, key: JobKey) -> float | None:
        """Return the seconds until a pod of a job is to be read; None if there is none."""
        if key not in self._of_jobs:
            return None
        first = min(each.due for each in self._of_jobs[key].values())
        return max(0.0, first - self._monotonic())

    def forget(self, key: JobKey, uid: str) -> None:
        """Forget a pod of a job: it is gone, or the watch has it again."""
        found = self._of_jobs.get(key)
        if found is None:
            return
        self._count -= found.pop(uid, None) is not None
        if not found:
            del self._of_jobs[key]

    def note_try(self, key: JobKey, uid: str) -> None:
        """Record that labels of a pod were restored or refused: the next read of it is delayed."""
        tries, _ = self._tries.pop(uid, (0, 0.0))
        self._tries[uid] = tries + 1, self._monotonic()
        if len(self._tries) > MOST_PODS:
            self._tries.popitem(last=False)
        suspect = self._of_jobs.get(key, {}).get(uid)
        if suspect is not None:
            self._keep(key, Suspect(name=suspect.name, uid=uid, due=self._due(uid)))

    def _due(self, uid: str) -> float:
        tries, last = self._tries.get(uid, (0, 0.0))
        if tries < AT_ONCE:
            return self._monotonic()
        # Beyond 2.0 ** 5 the delay is LONGEST.
        return last + min(LONGEST, SHORTEST * pow(2.0, min(tries - AT_ONCE, 5)))

    def _keep(self, key: JobKey, suspect: Suspect) -> None:
        found = self._of_jobs.setdefault(key, {})
        self._count += suspect.uid not in found
        found[suspect.uid] = suspect
        if self._count > MOST_PODS:
            oldest = next(iter(self._of_jobs))
            self._count -= len(self._of_jobs.pop(oldest))
