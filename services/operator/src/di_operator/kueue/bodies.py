"""Bodies of new Workloads, and patches of existing ones.

Times are RFC 3339 strings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.defaults import without_defaults
from di_api.field_error import items, mapping
from di_api.names import (
    ANNOTATION_DIGEST,
    ANNOTATION_SENT,
    CORE,
    ELASTIC,
    FINALIZER_QUOTA,
    LABEL_TASK_NAME,
    LABEL_TIER,
    PLURAL,
)
from di_api.ownership import dispatched_part
from di_kube.resources import WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from di_operator.builders.metadata import object_metadata
from di_operator.kueue.portions import PodSet
from di_operator.kueue.workload import WAITS_FOR_RECOVERY, Workload

PRIORITIES: Final = {"normal": 0, "high": 1000}
"""Priority of a Workload by its job's `priority`."""
_REQUEUED: Final = ("Preempted", "NodeFailures")
_LOWEST: Final = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The queue and priority with which a job waits."""

    queue: str
    priority: int
    priority_class: str | None = None

    def spec(self, *, is_core: bool) -> dict[str, Any]:
        """Return these fields of a Workload's spec. An extra replica gets no higher priority than a
        core of its class.
        """
        priority = self.priority if is_core else max(self.priority - 1, _LOWEST)
        spec: dict[str, Any] = {"queueName": self.queue, "priority": priority}
        if self.priority_class is not None:
            spec["priorityClassRef"] = {
                "group": WORKLOAD_PRIORITY_CLASSES.group,
                "kind": WORKLOAD_PRIORITY_CLASSES.kind,
                "name": self.priority_class,
            }
        return spec


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRecipe:
    """A Workload that is not built yet; `task` None is the core."""

    job: Mapping[str, Any]
    name: str
    task: str | None
    standing: Standing
    pod_sets: tuple[PodSet, ...]
    sent: str = ""
    """Digest of the job's spec, see `sent_digest`."""

    def build(self) -> dict[str, Any]:
        """Return the body."""
        metadata = object_metadata(self.job, self.name)
        metadata["labels"] |= {LABEL_TIER: CORE if self.task is None else ELASTIC}
        if self.task is not None:
            metadata["labels"][LABEL_TASK_NAME] = self.task
        metadata["finalizers"] = [FINALIZER_QUOTA]
        metadata["annotations"] = annotations_of(self.pod_sets, self.sent)
        return {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "metadata": metadata,
            "spec": {
                **self.standing.spec(is_core=self.task is None),
                "podSets": [each.body() for each in self.pod_sets],
            },
        }


def annotations_of(pod_sets: Iterable[PodSet], sent: str) -> dict[str, str]:
    """Return the annotations of a Workload that record what it was created from."""
    return {ANNOTATION_DIGEST: digest_of(pod_sets)} | ({ANNOTATION_SENT: sent} if sent else {})


def digest_of(pod_sets: Iterable[PodSet]) -> str:
    """Return a digest of podSets, which shows whether they have changed since a Workload was
    created.
    """
    return _digest([each.body() for each in pod_sets])


def sent_digest(spec: Mapping[str, Any]) -> str:
    """Return a digest of a job's spec, which shows whether it has changed since it was sent to
    another cluster.
    """
    return _digest(without_defaults(dispatched_part(spec)))


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def adopted(workload: Workload, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that makes the job the owner of a Workload that another client created for
    it.
    """
    owners = object_metadata(job, workload.name)["ownerReferences"]
    return {
        "metadata": {
            "ownerReferences": owners,
            "finalizers": [*workload.finalizers, FINALIZER_QUOTA],
        }
    }


def unfinalized(workload: Workload) -> dict[str, Any]:
    """Return the patch that removes the finalizer of a deleted Workload."""
    kept = [each for each in workload.finalizers if each != FINALIZER_QUOTA]
    return {"metadata": {"finalizers": kept or None}}


def released(workload: Workload, now: str) -> dict[str, Any]:
    """Return the status patch by which an evicted Workload releases its quota and queues again.

    A Workload that was preempted, or whose node failed, can be admitted again at once; for other
    causes Kueue decides when.
    """
    reason, message = workload.words.reason, workload.words.message
    return {
        "status": {
            "admission": None,
            "conditions": _with(
                workload,
                now,
                ("QuotaReserved", False, "Pending", message),
                ("Admitted", False, "NoReservation", "The workload has no reservation"),
                ("Requeued", reason in _REQUEUED, reason, message),
                ("PodsReady", False, "WaitForStart", "Its pods have ended"),
            ),
        }
    }


def reported_ready(workload: Workload, now: str) -> dict[str, Any]:
    """Return the status patch that reports all its pods ready or succeeded."""
    reason = "Recovered" if workload.is_recovering else "Started"
    condition = ("PodsReady", True, reason, "All pods are ready or have succeeded")
    return {"status": {"conditions": _with(workload, now, condition)}}


def reported_unready(workload: Workload, now: str) -> dict[str, Any]:
    """Return the status patch that reports that its pods were ready and no longer are."""
    condition = ("PodsReady", False, WAITS_FOR_RECOVERY, "Not all pods are ready any more")
    return {"status": {"conditions": _with(workload, now, condition)}}


def reported_finished(
    workload: Workload, now: str, *, succeeded: bool, message: str
) -> dict[str, Any]:
    """Return the status patch that reports the end of its job."""
    reason = "Succeeded" if succeeded else "Failed"
    condition = ("Finished", True, reason, message or f"the {PLURAL[:-1]} has ended")
    return {"status": {"conditions": _with(workload, now, condition)}}


def _with(
    workload: Workload, now: str, *changes: tuple[str, bool, str, str]
) -> list[dict[str, Any]]:
    """Return all its conditions with some changed, because a merge patch replaces the list."""
    status = mapping(workload.raw.get("status"))
    conditions = {
        str(one.get("type")): dict(one) for one in map(mapping, items(status.get("conditions")))
    }
    generation = mapping(workload.raw.get("metadata")).get("generation") or 0
    for kind, value, reason, message in changes:
        before = conditions.get(kind, {})
        since = before.get("lastTransitionTime")
        conditions[kind] = {
            "type": kind,
            "status": str(value),
            "reason": reason,
            "message": message,
            "observedGeneration": generation,
            "lastTransitionTime": since if since and before.get("status") == str(value) else now,
        }
    return list(conditions.values())
