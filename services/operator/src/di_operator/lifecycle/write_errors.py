"""The consequences for a job when the API server refuses an action.

The executor translates HTTP errors into these classes, so that phase, reason and message of a
refused job are decided here, like all others:

- 422 on a create: :class:`TemplateRefused`, of the node lists :class:`NodeListsRefused`
- 403 on a create: :class:`QuotaExceeded` when a quota is the cause, else :class:`CreateForbidden`
- any refusal of a Workload: :class:`WorkloadRefused`
- any of these on the create of a companion, or 404: :class:`CompanionRefused`
- the same of an object for a scheduler: :class:`SchedulingObjectRefused`
- AlreadyExists with another owner, or none: :class:`NameTaken` with the object that was found

The job is not at fault for all other errors (conflicts, time-outs, 429, 5xx): the caller retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final, TypeAlias

from di_api.phase import Phase
from di_kube.resources import PODS, Resource
from di_operator.lifecycle.build_status import conclude
from di_operator.lifecycle.failure.refused_creates import pause
from di_operator.lifecycle.job_types.choose import job_type_of
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policies.deletion import delete, is_terminating
from di_operator.lifecycle.policies.reclaim import reclaim, restored_events
from di_operator.lifecycle.vocabulary.actions import Action, Reclaim
from di_operator.lifecycle.vocabulary.decision import Decision, JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason
from di_operator.lifecycle.vocabulary.rules import Rule, Seen, Then

_NEXT_LOOK = 1.0
_NEXT_ATTEMPT = 10.0
"""Seconds until a refused replica is retried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRefused:
    """The API server refused an object as invalid (422); ``message`` is its own text."""

    seen: ClassVar[Seen] = Seen.TEMPLATE_REFUSED
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeListsRefused:
    """The API server refused the ConfigMap as invalid (422); ``message`` is its own text.

    Existing pods are not affected, so it never ends a job.
    """

    seen: ClassVar[Seen] = Seen.NODE_LISTS_REFUSED
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaExceeded:
    """A ResourceQuota refused an object (403); ``message`` is the API server's text."""

    seen: ClassVar[Seen] = Seen.QUOTA_EXCEEDED
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateForbidden:
    """Admission or authorization refused an object (403) for another reason than quota."""

    seen: ClassVar[Seen] = Seen.CREATE_FORBIDDEN
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NameTaken:
    """The name is taken: by an object of another owner, or by one of the job that lost its labels.

    ``found`` is that whole object.
    """

    seen: ClassVar[Seen] = Seen.NAME_OF_OTHER
    """The observation until the owner of the object has been checked."""
    resource: Resource
    found: Mapping[str, Any]

    @property
    def message(self) -> str:
        """The message about an object of another owner that has the name."""
        return f"{self.words} exists and does not belong to this job"

    @property
    def words(self) -> str:
        """The kind and name of the object, for messages."""
        return f"{self.resource.kind} {self.found['metadata']['name']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionRefused:
    """A companion could not be created; ``message`` has its kind, its name and the cause."""

    seen: Seen
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingObjectRefused:
    """An object for a scheduler could not be written; ``message`` has its kind, its name and the
    cause.
    """

    seen: Seen
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRefused:
    """Kueue, or the API server, refused a Workload of the job; ``message`` is its text."""

    seen: ClassVar[Seen] = Seen.WORKLOAD_REFUSED
    message: str


Fault: TypeAlias = (
    TemplateRefused
    | NodeListsRefused
    | QuotaExceeded
    | CreateForbidden
    | NameTaken
    | CompanionRefused
    | SchedulingObjectRefused
    | WorkloadRefused
)

_GRAVITY: Final = tuple(Seen)


def gravest(faults: Iterable[Fault]) -> Fault:
    """Return the most severe of several faults of a batch. Raises ValueError without faults.

    A refused template ends the job, an object of another owner may; the others make the job wait.
    """
    return min(faults, key=lambda fault: _GRAVITY.index(fault.seen))


def on_error(snapshot: Snapshot, fault: Fault, now: datetime) -> Decision:
    """Return the decision about a refused action, by the table of rules.

    It replaces the status and the events of the decision whose action was refused. Its own
    actions, if any, are executed in the same way.
    """
    if isinstance(fault, NameTaken) and (marks := _take_back(snapshot, fault)):
        events = restored_events([marks])
        return Decision(actions=(marks,), events=events, requeue_after=0.0)
    refused = job_type_of(snapshot.job, snapshot.spec).refused(snapshot)
    rule = snapshot.rule(_seen(snapshot, fault), refused)
    return _answer(snapshot, fault, rule, now)


def _answer(snapshot: Snapshot, fault: Fault, rule: Rule, now: datetime) -> Decision:
    match rule.then:
        case Then.LOOK:
            return Decision(requeue_after=_NEXT_LOOK)
        case Then.DELETE:
            return Decision(actions=_removal(fault), requeue_after=_NEXT_LOOK)
        case Then.TELL:
            return _tell(fault, rule)
        case Then.WAIT:
            return _wait(snapshot, fault, rule, now)
        case Then.HOLD:
            return conclude(snapshot, _held(snapshot, fault, rule), now)
        case Then.FAIL:
            return conclude(snapshot, _failed(fault, rule), now)
        case Then.RESTART | Then.RENEW | Then.RESCHEDULE | Then.IGNORE:
            raise AssertionError(f"no answer to a refused write: {rule}")


def _take_back(snapshot: Snapshot, fault: NameTaken) -> Reclaim | None:
    """Return the patch that restores the labels of an object that the job already owns."""
    slot = snapshot.slot(fault.found["metadata"]["name"]) if fault.resource == PODS else None
    return reclaim(snapshot, fault.resource, fault.found, slot)


def _seen(snapshot: Snapshot, fault: Fault) -> Seen:
    if isinstance(fault, NameTaken):
        if snapshot.is_own(fault.found):
            return Seen.NAME_OF_OWN
        if snapshot.is_predecessor(fault.found):
            return Seen.NAME_OF_EARLIER
    return fault.seen


def _tell(fault: Fault, rule: Rule) -> Decision:
    """Report the refusal and retry later; the job goes on without the refused object."""
    message = fault.message
    if isinstance(fault, NameTaken):
        message = f"{fault.words} exists already"
    assert rule.reason is not None, f"a rule that tells has a reason: {rule}"
    event = JobEvent(reason=rule.reason, message=message)
    return Decision(events=(event,), requeue_after=_NEXT_ATTEMPT)


def _wait(snapshot: Snapshot, fault: Fault, rule: Rule, now: datetime) -> Decision:
    """Let the job wait in Pending. Every refusal is written, as the next delay counts from it."""
    verdict = Verdict(
        phase=Phase.PENDING, reason=rule.reason, message=fault.message, force_write=True
    )
    decision = conclude(snapshot, verdict, now)
    status = snapshot.status
    again = status.is_waiting and status.reason == rule.reason
    waited = (now - status.transitioned).total_seconds() if again and status.transitioned else 0.0
    return replace(decision, requeue_after=pause(waited))


def _held(snapshot: Snapshot, fault: Fault, rule: Rule) -> Verdict:
    message = fault.message
    if isinstance(fault, NameTaken):
        message += "; waiting until it is gone, or has the job as its controller again"
    return Verdict(
        phase=snapshot.status.phase or Phase.PENDING,
        reason=rule.reason,
        message=message,
        events=_conflict(fault),
        requeue_after=_NEXT_ATTEMPT,
    )


def _failed(fault: Fault, rule: Rule) -> Verdict:
    return Verdict(
        phase=Phase.FAILED, reason=rule.reason, message=fault.message, events=_conflict(fault)
    )


def _conflict(fault: Fault) -> tuple[JobEvent, ...]:
    if not isinstance(fault, NameTaken):
        return ()
    return (JobEvent(reason=Reason.NAME_CONFLICT, message=fault.message),)


def _removal(fault: Fault) -> tuple[Action, ...]:
    """Delete the object that has the name, unless it is already being deleted."""
    if not isinstance(fault, NameTaken) or is_terminating(fault.found):
        return ()
    return (delete(fault.resource, fault.found),)
