"""Workloads to be made, and what is written to those that are there.

Times are texts of RFC 3339.
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
"""Of a Workload, by its job's `priority`."""
_REQUEUED: Final = ("Preempted", "NodeFailures")
_LOWEST: Final = -(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a job waits, and before whom."""

    queue: str
    priority: int
    priority_class: str | None = None

    def spec(self, *, is_core: bool) -> dict[str, Any]:
        """The fields of a Workload's spec; an extra replica goes before no core of its class."""
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
    """A Workload, still to be built; `task` None is the core."""

    job: Mapping[str, Any]
    name: str
    task: str | None
    standing: Standing
    pod_sets: tuple[PodSet, ...]
    sent: str = ""
    """See `sent_digest`."""

    def build(self) -> dict[str, Any]:
        """The body."""
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
    """What a Workload was made with."""
    return {ANNOTATION_DIGEST: digest_of(pod_sets)} | ({ANNOTATION_SENT: sent} if sent else {})


def digest_of(pod_sets: Iterable[PodSet]) -> str:
    """What tells whether podSets are still those that a Workload was made with."""
    return _digest([each.body() for each in pod_sets])


def sent_digest(spec: Mapping[str, Any]) -> str:
    """What tells whether the spec of a job is still the one that another cluster was sent."""
    return _digest(without_defaults(dispatched_part(spec)))


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def adopted(workload: Workload, job: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that makes a Workload, which was made for the job by another, the job's own."""
    owners = object_metadata(job, workload.name)["ownerReferences"]
    return {
        "metadata": {
            "ownerReferences": owners,
            "finalizers": [*workload.finalizers, FINALIZER_QUOTA],
        }
    }


def unfinalized(workload: Workload) -> dict[str, Any]:
    """The patch that lets a deleted Workload go."""
    kept = [each for each in workload.finalizers if each != FINALIZER_QUOTA]
    return {"metadata": {"finalizers": kept or None}}


def released(workload: Workload, now: str) -> dict[str, Any]:
    """The patch of its status by which an evicted Workload gives its quota back, and queues again.

    One that another has preempted, or whose node was lost, may be admitted again at once; of the
    rest Kueue says when.
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
    """The patch of its status that says that all its pods are ready, or have succeeded."""
    reason = "Recovered" if workload.is_recovering else "Started"
    condition = ("PodsReady", True, reason, "All pods are ready or have succeeded")
    return {"status": {"conditions": _with(workload, now, condition)}}


def reported_unready(workload: Workload, now: str) -> dict[str, Any]:
    """The patch of its status that says that they were, and are not any more."""
    condition = ("PodsReady", False, WAITS_FOR_RECOVERY, "Not all pods are ready any more")
    return {"status": {"conditions": _with(workload, now, condition)}}


def reported_finished(
    workload: Workload, now: str, *, succeeded: bool, message: str
) -> dict[str, Any]:
    """The patch of its status that says that its job has ended."""
    reason = "Succeeded" if succeeded else "Failed"
    condition = ("Finished", True, reason, message or f"the {PLURAL[:-1]} has ended")
    return {"status": {"conditions": _with(workload, now, condition)}}


def _with(
    workload: Workload, now: str, *changes: tuple[str, bool, str, str]
) -> list[dict[str, Any]]:
    """All its conditions with some changed: a merge patch replaces the list."""
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
