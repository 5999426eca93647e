"""What the API server's refusals of an action mean for the job.

The executor knows errors of the wire; it hands over what they mean, so that phase, reason and
message of a refused job are decided here, beside all others:

- 422 on a create: :class:`TemplateRefused`, of the node lists :class:`NodeListsRefused`
- 403 on a create: :class:`QuotaExceeded` when a quota says so, else :class:`CreateForbidden`
- AlreadyExists with another owner, or none: :class:`NameTaken` with the object that was found

Everything else (conflicts, time-outs, 429, 5xx) is no fault of the job: the shell retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

from di_api.model import Phase
from di_operator.lifecycle import conditions
from di_operator.lifecycle.actions import Action, Reclaim
from di_operator.lifecycle.backoff import pause
from di_operator.lifecycle.decision import Decision, JobEvent
from di_operator.lifecycle.deletion import (
    delete_configmap,
    delete_pod,
    delete_service,
    is_terminating,
)
from di_operator.lifecycle.pods import Pod
from di_operator.lifecycle.reclaim import reclaim, restored_events
from di_operator.lifecycle.snapshot import Snapshot
from di_operator.lifecycle.verdict import Verdict, conclude

_NEXT_LOOK = 1.0
_NEXT_ATTEMPT = 10.0
"""Seconds until a refused replica is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRefused:
    """The API server refused an object as invalid (422); ``message`` is its own text."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeListsRefused:
    """The API server refused the ConfigMap as invalid (422); ``message`` is its own text.

    It says nothing about the pods that exist, so it never ends a job.
    """

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaExceeded:
    """A ResourceQuota refused an object (403); ``message`` is the API server's text."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateForbidden:
    """Admission or authorization refused an object (403), quota apart."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NameTaken:
    """An object has the wanted name already: another's, or one of ours that lost its labels.

    ``found`` is that object, whole.

    ``kind`` is ``Pod``, ``Service`` or ``ConfigMap``.
    """

    kind: str
    found: Mapping[str, Any]


Fault: TypeAlias = TemplateRefused | NodeListsRefused | QuotaExceeded | CreateForbidden | NameTaken

_GRAVITY = (TemplateRefused, NameTaken, NodeListsRefused, QuotaExceeded, CreateForbidden)


def gravest(faults: Iterable[Fault]) -> Fault:
    """Return the fault that decides when a batch of creates met several. Raises ValueError if none.

    A refused template ends the job, a foreign object may, the others make it wait.
    """
    return min(faults, key=lambda fault: _GRAVITY.index(type(fault)))


def on_error(snapshot: Snapshot, fault: Fault, now: datetime) -> Decision:
    """Decide what a refused action makes of the job.

    The answer replaces the status and events of the decision whose action was refused; its own
    actions, if any, are executed in the same way.
    """
    if isinstance(fault, NameTaken) and (marks := _take_back(snapshot, fault)):
        events = restored_events([marks])
        return Decision(actions=(marks,), events=events, requeue_after=0.0)
    if _concerns_replicas(snapshot):
        return _later(fault)
    match fault:
        case TemplateRefused():
            verdict = Verdict(
                phase=Phase.FAILED,
                reason=conditions.REASON_INVALID_TEMPLATE,
                message=fault.message,
            )
            return conclude(snapshot, verdict, now)
        case NodeListsRefused():
            verdict = Verdict(
                phase=snapshot.status.phase or Phase.PENDING,
                reason=conditions.REASON_NODE_LISTS,
                message=fault.message,
                requeue_after=_NEXT_ATTEMPT,
            )
            return conclude(snapshot, verdict, now)
        case QuotaExceeded() | CreateForbidden():
            is_quota = isinstance(fault, QuotaExceeded)
            reason = conditions.REASON_QUOTA if is_quota else conditions.REASON_FORBIDDEN
            return _wait(snapshot, reason, fault.message, now)
        case NameTaken():
            return _name_taken(snapshot, fault, now)


def _take_back(snapshot: Snapshot, fault: NameTaken) -> Reclaim | None:
    """What makes an object the job's again that was made for it."""
    slot = snapshot.slot(fault.found["metadata"]["name"]) if fault.kind == "Pod" else None
    return reclaim(snapshot, fault.kind, fault.found, slot)


def _concerns_replicas(snapshot: Snapshot) -> bool:
    """Whether only pods besides the coordinator can have been refused; they change no phase."""
    return snapshot.is_coordinated and snapshot.slots[0] not in snapshot.missing


def _later(fault: Fault) -> Decision:
    """Tell of the refusal and try again; the coordinator may do without."""
    match fault:
        case NameTaken(kind=kind, found=found):
            reason = conditions.REASON_NAME_CONFLICT
            message = f"{kind} {found['metadata']['name']} exists already"
        case QuotaExceeded(message=message):
            reason = conditions.REASON_QUOTA
        case CreateForbidden(message=message):
            reason = conditions.REASON_FORBIDDEN
        case TemplateRefused(message=message):
            reason = conditions.REASON_INVALID_TEMPLATE
        case NodeListsRefused(message=message):
            reason = conditions.REASON_NODE_LISTS
    event = JobEvent(type="Warning", reason=reason, message=message)
    return Decision(events=(event,), requeue_after=_NEXT_ATTEMPT)


def _wait(snapshot: Snapshot, reason: str, message: str, now: datetime) -> Decision:
    """Let the job wait in Pending; every refusal is written, the next pause counts from it."""
    verdict = Verdict(phase=Phase.PENDING, reason=reason, message=message, insist=True)
    decision = conclude(snapshot, verdict, now)
    status = snapshot.status
    again = status.phase is Phase.PENDING and status.reason == reason
    waited = (now - status.transitioned).total_seconds() if again and status.transitioned else 0.0
    return replace(decision, requeue_after=pause(waited))


def _name_taken(snapshot: Snapshot, fault: NameTaken, now: datetime) -> Decision:
    if snapshot.is_own(fault.found):
        return Decision(requeue_after=_NEXT_LOOK)  # it is ours after all, the watch will show it
    name = fault.found["metadata"]["name"]
    if snapshot.is_predecessor(fault.found):
        # The watch has not shown it yet, or decide() would have waited for its end.
        gone = is_terminating(fault.found)
        return Decision(
            actions=() if gone else (_delete(fault.kind, fault.found),), requeue_after=_NEXT_LOOK
        )
    phase = snapshot.status.phase
    if phase in (Phase.STARTING, Phase.RUNNING):
        return _later(fault)  # its pods are there, and need no more than they have
    message = f"{fault.kind} {name} exists and does not belong to this job"
    told = JobEvent(type="Warning", reason="NameConflict", message=message)
    waits = snapshot.status.has_started
    if waits:
        message += "; waiting until it is gone, or has the job as its controller again"
    verdict = Verdict(
        # What the job has done is not thrown away for something that somebody can put right.
        phase=(phase or Phase.PENDING) if waits else Phase.FAILED,
        reason=conditions.REASON_NAME_CONFLICT,
        message=message,
        events=(told,),
        requeue_after=_NEXT_ATTEMPT if waits else None,
    )
    return conclude(snapshot, verdict, now)


def _delete(kind: str, found: Mapping[str, Any]) -> Action:
    match kind:
        case "Service":
            return delete_service(found)
        case "ConfigMap":
            return delete_configmap(found)
        case _:
            return delete_pod(Pod.read(found))
