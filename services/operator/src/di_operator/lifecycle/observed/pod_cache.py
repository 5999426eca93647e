"""The facts of pods, read once for each change, and how many pods of a task are at which stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from di_api.names import LABEL_JOB, LABEL_TASK_NAME
from di_operator.lifecycle.observed.pod_state import SharedOwners, SharedStates
from di_operator.lifecycle.observed.pods import Pod

TaskKey: TypeAlias = tuple[str, str | None, str | None]
"""Namespace, job and task of a pod, by its labels."""
_STAGES: Final = ("Pending", "Running", "Ready", "Succeeded")
"""The stages of a pod that does not fail, in order."""
_EARLIER: Final = {stage: _STAGES[:place] for place, stage in enumerate(_STAGES)}
_VERSION: Final = "resourceVersion"
_MOST_STATES: Final = 4096
"""States of pods that are remembered: all tasks of some hundred jobs have fewer."""
_MOST_OWNERS: Final = 1024
"""Jobs of which the reference in their pods is remembered."""


class TaskStages:
    """Counts pods by task and stage, so that no event needs a look at all pods of its task."""

    def __init__(self) -> None:
        self._counts: dict[TaskKey, dict[str, int]] = {}

    def add(self, task: TaskKey, stage: str) -> None:
        """Count one pod more."""
        counts = self._counts.setdefault(task, {})
        counts[stage] = counts.get(stage, 0) + 1

    def remove(self, task: TaskKey, stage: str) -> None:
        """Count one pod less that was added with the same values."""
        counts = self._counts[task]
        counts[stage] -= 1
        if not counts[stage]:
            del counts[stage]
            if not counts:
                del self._counts[task]

    def is_ahead(self, task: TaskKey, stage: str) -> bool:
        """Return whether a pod of the task is at an earlier stage; False for a stage that is not
        one of those above.
        """
        counts = self._counts.get(task)
        if counts is not None:
            for earlier in _EARLIER.get(stage, ()):
                if earlier in counts:
                    return True
        return False


class PodCache:
    """A PodReader that caches a number of pods by UID; the oldest entries are dropped first.

    Objects are replaced and never modified, so a pod that is the same object as before has the
    same facts. To read all pods of a large job again in each reconcile would take longer than the
    decision.
    """

    def __init__(self, *, size: int) -> None:
        self._size = size
        self._known: dict[str, tuple[Pod, TaskKey, str]] = {}
        """The facts of a pod by UID, with its task and stage, as which it is counted."""
        self._state_of = SharedStates(size=_MOST_STATES)
        self._owner_of = SharedOwners(size=_MOST_OWNERS)
        self._stages = TaskStages()

    def __call__(self, raw: Mapping[str, Any]) -> Pod:
        """Return the facts of a pod."""
        return self._read(raw)[0]

    def is_as_known(self, raw: Mapping[str, Any]) -> bool:
        """Return whether a pod is remembered with the same content, of another version perhaps.

        Specs and statuses are compared by identity, since a cache of transformed pods keeps one of
        all equal ones. Two equal parts can count as different, never the other way round.
        """
        known = self._known.get(raw["metadata"].get("uid", ""))
        if known is None:
            return False
        before = known[0].raw
        if before.get("status") is not raw.get("status"):
            return False
        if before.get("spec") is not raw.get("spec"):
            return False
        version = {_VERSION: raw["metadata"].get(_VERSION)}
        return bool({**before["metadata"], **version} == {**raw["metadata"], **version})

    def is_ahead(self, raw: Mapping[str, Any]) -> bool:
        """Return whether a remembered pod of the same task is at an earlier stage."""
        _, task, stage = self._read(raw)
        return self._stages.is_ahead(task, stage)

    def follow(self, kind: str, raw: Mapping[str, Any]) -> None:
        """Read a changed pod ahead of the next reconcile, or drop a deleted one.

        A subscriber of a watch cache.
        """
        if kind == "DELETED":
            self._forget(raw["metadata"].get("uid", ""))
        else:
            self._read(raw)

    def _read(self, raw: Mapping[str, Any]) -> tuple[Pod, TaskKey, str]:
        metadata = raw["metadata"]
        uid = metadata.get("uid", "")
        known = self._known.get(uid)
        if known is not None and known[0].raw is raw:
            return known
        pod = Pod.read(raw, self._state_of(raw), self._owner_of)
        labels = metadata.get("labels") or {}
        task = pod.namespace, labels.get(LABEL_JOB), labels.get(LABEL_TASK_NAME)
        found = self._known[uid] = pod, task, pod.stage
        self._stages.add(task, found[2])
        if known is not None:
            self._stages.remove(known[1], known[2])
        elif len(self._known) > self._size:
            self._forget(next(iter(self._known)))
        return found

    def _forget(self, uid: str) -> None:
        if (known := self._known.pop(uid, None)) is not None:
            self._stages.remove(known[1], known[2])
