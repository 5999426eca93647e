"""The state of a Kueue Workload: whether it has quota, and why not.

The conditions are those of https://kueue.sigs.k8s.io/docs/concepts/workload/, API v1beta2.
Everything is derived from the object's present content, so a new leader gets the same result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from di_api.conditions import condition_of
from di_api.field_error import items, mapping
from di_api.names import (
    ANNOTATION_DIGEST,
    ANNOTATION_SENT,
    CORE,
    FINALIZER_QUOTA,
    LABEL_QUEUE,
    LABEL_TASK_NAME,
    LABEL_TIER,
)
from di_api.ownership import controller_uid
from di_api.timestamps import parse_time

Object = Mapping[str, Any]

WAITS_FOR_RECOVERY: Final = "WaitForRecovery"
"""Kueue's reason for pods that were ready and no longer are."""
_WAITS: Final = "Kueue has not looked at it yet"


class State(StrEnum):
    """Quota state of a Workload."""

    QUEUED = "Queued"
    """It has no quota."""
    RESERVED = "Reserved"
    """It has quota, and waits for checks of its admission."""
    ADMITTED = "Admitted"
    EVICTED = "Evicted"
    """It still has quota, and has to release it."""
    FINISHED = "Finished"

    @property
    def holds_quota(self) -> bool:
        """Return whether its quota is reserved, so that other Workloads cannot use it."""
        return self in (State.RESERVED, State.ADMITTED, State.EVICTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Reason and message from Kueue."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The parsed facts of a Workload on which decisions depend; ``raw`` is never modified."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    owner: str | None
    """UID of the job that controls it."""
    is_core: bool
    task: str
    """Task of the replica, for a Workload beyond the core."""
    state: State
    words: Words
    """Why it is in that state."""
    deleting: bool
    finalizers: tuple[str, ...]
    queue: str
    priority: int | None
    priority_class: str | None
    digest: str
    """Digest of the podSets that it was created with."""
    sent: str
    """Digest of the job's spec that goes to another cluster with it; empty if none does."""
    cluster: str | None
    """The chosen cluster, if there are several."""
    assigned: Mapping[str, Object]
    """Kueue's assignment of each podSet."""
    pods_ready: bool
    is_recovering: bool
    """Whether its pods were ready at some time since admission, and are not ready now."""
    raw: Object

    @classmethod
    def read(cls, raw: Object) -> Workload:
        """Parse a Workload of any shape as the API server returns it."""
        metadata, spec, status = (mapping(raw.get(part)) for part in ("metadata", "spec", "status"))
        labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
        conditions = {
            str(one.get("type")): one for one in map(mapping, items(status.get("conditions")))
        }
        admission = mapping(status.get("admission"))
        state = _state(conditions, has_admission=bool(admission))
        priority = spec.get("priority")
        return cls(
            name=str(metadata.get("name")),
            namespace=str(metadata.get("namespace")),
            uid=str(metadata.get("uid")),
            resource_version=str(metadata.get("resourceVersion")),
            owner=controller_uid(raw),
            is_core=labels.get(LABEL_TIER) == CORE,
            task=str(labels.get(LABEL_TASK_NAME) or ""),
            state=state,
            words=_words(state, conditions, items(status.get("admissionChecks"))),
            deleting="deletionTimestamp" in metadata,
            finalizers=tuple(str(each) for each in items(metadata.get("finalizers"))),
            queue=str(spec.get("queueName") or labels.get(LABEL_QUEUE) or ""),
            priority=priority if isinstance(priority, int) else None,
            priority_class=_text(mapping(spec.get("priorityClassRef")).get("name")),
            digest=str(annotations.get(ANNOTATION_DIGEST) or ""),
            sent=str(annotations.get(ANNOTATION_SENT) or ""),
            cluster=_text(status.get("clusterName")),
            assigned={
                str(each.get("name")): each
                for each in map(mapping, items(admission.get("podSetAssignments")))
            },
            pods_ready=_is_true(conditions, "PodsReady"),
            is_recovering=mapping(conditions.get("PodsReady")).get("reason") == WAITS_FOR_RECOVERY,
            raw=raw,
        )

    @property
    def holds(self) -> bool:
        """Return whether the operator decides when its quota is free."""
        return FINALIZER_QUOTA in self.finalizers

    @property
    def reserved(self) -> datetime | None:
        """Return since when it has had quota, or none; None if Kueue has not reported it."""
        return parse_time(condition_of(self.raw, "QuotaReserved").get("lastTransitionTime"))

    def count(self, pod_set: str) -> int:
        """Return how many pods of a podSet are admitted."""
        found = mapping(self.assigned.get(pod_set)).get("count")
        return found if isinstance(found, int) else 0


def read_all(found: Iterable[Object]) -> tuple[Workload, ...]:
    """Parse Workloads, in the order of their names."""
    return tuple(sorted(map(Workload.read, found), key=lambda each: each.name))


def _state(conditions: Mapping[str, Object], *, has_admission: bool) -> State:
    if _is_true(conditions, "Finished"):
        return State.FINISHED
    if not has_admission and not _is_true(conditions, "QuotaReserved"):
        return State.QUEUED
    if _is_true(conditions, "Evicted"):
        return State.EVICTED
    return State.ADMITTED if _is_true(conditions, "Admitted") else State.RESERVED


def _words(state: State, conditions: Mapping[str, Object], checks: Iterable[object]) -> Words:
    kind = {State.QUEUED: "QuotaReserved", State.RESERVED: "Admitted"}.get(state, state.value)
    found = mapping(conditions.get(kind))
    reason, message = _text(found.get("reason")), _text(found.get("message"))
    if state is State.RESERVED and not message:
        waits = sorted(
            f"{check.get('name')} is {check.get('state')}{_in_brackets(check.get('message'))}"
            for check in map(mapping, checks)
            if check.get("state") != "Ready"
        )
        message = f"quota is reserved; admission checks: {', '.join(waits)}" if waits else None
    return Words(reason=reason or "Waiting", message=message or _WAITS)


def _is_true(conditions: Mapping[str, Object], kind: str) -> bool:
    return mapping(conditions.get(kind)).get("status") == "True"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _in_brackets(words: object) -> str:
    return f" ({words})" if isinstance(words, str) and words else ""
