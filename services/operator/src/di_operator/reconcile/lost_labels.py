"""Restores the labels of pods that lost them, so that the operator's watch has the pods again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from di_api.ownership import controlling_job
from di_kube.errors import Forbidden
from di_kube.resources import PODS
from di_operator.builders.metadata import job_labels
from di_operator.cluster.executor import Executor
from di_operator.cluster.unlabelled_pods import Suspect, is_labelled
from di_operator.lifecycle.vocabulary.actions import Reclaim
from di_operator.process.controller import JobKey, Outdated
from di_operator.reconcile.job_reader import JobReader

MOST_READ: Final = 64
"""Pods that are read in one reconcile; the next one reads further pods."""


def restoration(job: str, suspect: Suspect, found: Mapping[str, Any] | None) -> Reclaim | None:
    """Return the patch of a pod that was read; None if the pod is gone, has the operator's label,
    or lost its controller reference to a job of that name.

    Which pods a job needs makes no difference: one that it does not need has to be seen to be
    deleted.
    """
    if found is None or found["metadata"]["uid"] != suspect.uid or is_labelled(found):
        return None
    if (controlling_job(found) or {}).get("name") != job:
        return None
    wanted, labels = job_labels({"metadata": {"name": job}}), found["metadata"].get("labels") or {}
    return Reclaim(
        resource=PODS,
        namespace=found["metadata"]["namespace"],
        name=suspect.name,
        uid=suspect.uid,
        labels={key: value for key, value in wanted.items() if labels.get(key) != value},
        annotations={},
    )


class LostLabels:
    """Reads the pods that the watch lost, and restores the labels of those that exist."""

    def __init__(self, reader: JobReader, executor: Executor) -> None:
        self._reader = reader
        self._suspects = reader.unlabelled_pods
        self._executor = executor

    @property
    def is_idle(self) -> bool:
        """Return whether no pod of any job is lost."""
        return self._suspects.is_empty

    def until_due(self, key: JobKey) -> float | None:
        """Return the seconds until a pod of a job is to be read; None if there is none."""
        return self._suspects.until_due(key)

    async def restore(self, key: JobKey) -> Sequence[Reclaim] | None:
        """Return the patches of the lost pods of a job; None if no pod was to be read.

        After this the cache has the pods that exist, so a decision made before is outdated.

        Raises:
            NotLeading: the lease was lost.
            ApiError: a retry can succeed.
        """
        suspects = self._suspects.due(key)[:MOST_READ]
        if not suspects:
            return None
        found = await self._reader.lost_pods(key, suspects)
        restored: list[Reclaim] = []
        for suspect in suspects:
            action = restoration(key.name, suspect, found.get(suspect.uid))
            if action is None:
                self._suspects.forget(key, suspect.uid)
            elif await self._run(action, key):
                restored.append(action)
        return restored

    async def _run(self, action: Reclaim, key: JobKey) -> bool:
        """Execute a patch; return False if the API server or another client refuses the labels."""
        try:
            await self._executor.run([action], job=key, is_wanted=lambda: True)
        except (Outdated, Forbidden):
            self._suspects.note_try(key, action.uid)
            return False
        # It need not be in the cache now: the response of the patch can be that it is gone.
        self._suspects.forget(key, action.uid)
        self._suspects.note_try(key, action.uid)
        return True
