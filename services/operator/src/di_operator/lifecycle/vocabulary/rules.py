"""The table of responses to pods that end and to writes that are refused.

The first row that matches decides; a column that is left out matches everything. Rows are data: no
other module knows conditions of pods, and this one does not know how a response is carried out.
Reasons of pods are not a column, because a cluster has more of them than a table could list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from di_api.phase import Phase
from di_operator.lifecycle.vocabulary.reasons import Reason


class Part(StrEnum):
    """The role of a pod in its job."""

    TASK = "replica of a task"
    ELASTIC = "replica of the elastic tier of a task"
    """The elastic tier; for failed pods and refused writes also standby pods. Whether a standby
    pod is lost is decided as for TASK.
    """
    COORDINATOR = "coordinator"
    REPLICA = "replica that a coordinator asked for"


class Seen(StrEnum):
    """An observation of a pod, or the result of a write.

    Refused writes are ordered by severity: if several writes of one batch were refused, the most
    severe decides.
    """

    POD_FAILED = "pod whose replica has failed and that was not deleted"
    POD_DELETED = "pod that is being deleted"
    POD_GONE = "pod that vanished between two reconciles"
    TEMPLATE_REFUSED = "pod or Service that the API server calls invalid (422)"
    NAME_OF_OWN = "object of this job that has the name already"
    NAME_OF_EARLIER = "object of an earlier job of the same name that has the name"
    NAME_OF_OTHER = "object of another owner that has the name"
    NODE_LISTS_REFUSED = "ConfigMap of the node lists that the API server calls invalid (422)"
    COMPANION_INVALID = "companion that the API server calls invalid (400, 413, 422)"
    COMPANION_NAME_TAKEN = "object of another owner that has the name of a companion"
    COMPANION_KIND_MISSING = "companion of a kind that is not served (404) or not allowed"
    COMPANION_OVER_QUOTA = "companion beyond a ResourceQuota (403)"
    COMPANION_FORBIDDEN = "companion that admission or authorization refused (403), quota apart"
    SCHEDULING_KIND_MISSING = "object for a scheduler of a kind that is not served (404)"
    SCHEDULING_OBJECT_REFUSED = "object for a scheduler that is refused, or whose name is taken"
    WORKLOAD_REFUSED = "Workload that Kueue or the API server refused (403, 404, 422)"
    QUOTA_EXCEEDED = "object beyond a ResourceQuota (403)"
    CREATE_FORBIDDEN = "object that admission or authorization refused (403), quota apart"


class Then(StrEnum):
    """The response to an observation."""

    FAIL = "the job has failed"
    """For pods: the coordinator's only."""
    RESTART = "counted in restarts, and replaced"
    """For pods: all but the coordinator's. A job with tasks fails at its backoffLimit."""
    RENEW = "counted in restarts, and goes on in its pod"
    """For pods whose container failed, if a rule of the job's failure policy requests it."""
    RESCHEDULE = "counted in reschedules, and replaced"
    IGNORE = "replaced where it is missing, and not counted"
    """For pods that are deleted or gone."""
    WAIT = "the job is Pending, and retries with exponential back-off"
    HOLD = "the phase does not change, and the job retries"
    TELL = "a Warning and a retry; all else goes on"
    DELETE = "the object with the name is deleted"
    LOOK = "the watch will show it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An observation with the facts that rows may match."""

    seen: Seen
    part: Part
    phase: Phase | None
    """Phase of the job; None if its status is not written yet."""
    has_started: bool = True
    """Whether the status shows that the job has left Pending before."""
    has_begun: bool = True
    """Whether any container of the pod ran."""
    pod_conditions: frozenset[str] = frozenset()
    """Types of the pod's conditions that are True."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table: a response and its requirements."""

    seen: Seen
    then: Then
    reason: Reason | None = None
    """Reason used in the condition or Warning event for a refused write."""
    part: Part | None = None
    phases: frozenset[Phase] | None = None
    has_started: bool | None = None
    has_begun: bool | None = None
    pod_condition: str | None = None

    def fits(self, case: Case) -> bool:
        """Return whether the row matches the case."""
        return (
            self.seen is case.seen
            and self.part in (None, case.part)
            and (self.phases is None or case.phase in self.phases)
            and self.has_started in (None, case.has_started)
            and self.has_begun in (None, case.has_begun)
            and (self.pod_condition is None or self.pod_condition in case.pod_conditions)
        )


_UP: Final = frozenset(phase for phase in Phase if phase.is_up)
_PLACED: Final = frozenset(phase for phase in Phase if phase.is_placed)

_BESIDE_PODS: Final = (
    (Seen.COMPANION_INVALID, Reason.INVALID_COMPANION),
    (Seen.COMPANION_NAME_TAKEN, Reason.COMPANION_CONFLICT),
    (Seen.COMPANION_KIND_MISSING, Reason.COMPANION_KIND_MISSING),
    (Seen.COMPANION_OVER_QUOTA, Reason.QUOTA_EXCEEDED),
    (Seen.COMPANION_FORBIDDEN, Reason.CREATE_FORBIDDEN),
    (Seen.SCHEDULING_KIND_MISSING, Reason.SCHEDULING_KIND_MISSING),
    (Seen.SCHEDULING_OBJECT_REFUSED, Reason.SCHEDULING_OBJECT_REFUSED),
)
_BY_HAND: Final = (Seen.COMPANION_INVALID, Seen.COMPANION_NAME_TAKEN)
"""Refusals that a retry cannot overcome before a user has changed something."""

RULES: Final[tuple[Rule, ...]] = (
    # The kubelet or the control plane ended the pod for a reason of the cluster, not of the
    # program: Kubernetes 1.26 and newer sets this condition in all such cases. A pod that was
    # evicted without it has exceeded its own limit, and one may also end by its own deadline: both
    # are failures of the program.
    Rule(seen=Seen.POD_FAILED, then=Then.RESCHEDULE, pod_condition="DisruptionTarget"),
    # The kubelet rejected the pod, or ended it before any container ran.
    Rule(seen=Seen.POD_FAILED, then=Then.RESCHEDULE, has_begun=False),
    Rule(seen=Seen.POD_FAILED, then=Then.FAIL, part=Part.COORDINATOR),
    Rule(seen=Seen.POD_FAILED, then=Then.RESTART),
    # A pod that ends while the job is Pending was ended by suspension or preemption.
    Rule(seen=Seen.POD_DELETED, then=Then.RESCHEDULE, part=Part.TASK, phases=_PLACED),
    Rule(seen=Seen.POD_DELETED, then=Then.IGNORE, part=Part.TASK),
    Rule(seen=Seen.POD_DELETED, then=Then.RESCHEDULE, phases=_UP),
    Rule(seen=Seen.POD_DELETED, then=Then.IGNORE),
    # A replica whose pod vanished looks the same as one that was just added.
    Rule(seen=Seen.POD_GONE, then=Then.IGNORE, part=Part.REPLICA),
    Rule(seen=Seen.POD_GONE, then=Then.RESCHEDULE, phases=_UP),
    Rule(seen=Seen.POD_GONE, then=Then.IGNORE),
    # The job runs without its elastic tier.
    *(
        Rule(seen=seen, then=Then.HOLD, part=Part.ELASTIC, reason=reason)
        for seen, reason in (
            (Seen.QUOTA_EXCEEDED, Reason.QUOTA_EXCEEDED),
            (Seen.CREATE_FORBIDDEN, Reason.CREATE_FORBIDDEN),
        )
    ),
    # A coordinator can work with fewer replicas than it requested, and a user can correct its
    # template.
    *(
        Rule(seen=seen, then=Then.TELL, part=Part.REPLICA, reason=reason)
        for seen, reason in (
            (Seen.TEMPLATE_REFUSED, Reason.INVALID_TEMPLATE),
            (Seen.NAME_OF_OWN, Reason.POD_NAME_CONFLICT),
            (Seen.NAME_OF_EARLIER, Reason.POD_NAME_CONFLICT),
            (Seen.NAME_OF_OTHER, Reason.POD_NAME_CONFLICT),
            (Seen.NODE_LISTS_REFUSED, Reason.NODE_LISTS_TOO_LONG),
            (Seen.QUOTA_EXCEEDED, Reason.QUOTA_EXCEEDED),
            (Seen.CREATE_FORBIDDEN, Reason.CREATE_FORBIDDEN),
        )
    ),
    Rule(seen=Seen.TEMPLATE_REFUSED, then=Then.FAIL, reason=Reason.INVALID_TEMPLATE),
    Rule(seen=Seen.NAME_OF_OWN, then=Then.LOOK),
    # The watch has not shown the object yet; otherwise the operator would have waited for its end.
    Rule(seen=Seen.NAME_OF_EARLIER, then=Then.DELETE),
    # The pods exist already and need nothing else.
    Rule(
        seen=Seen.NAME_OF_OTHER,
        then=Then.TELL,
        reason=Reason.POD_NAME_CONFLICT,
        phases=_UP,
    ),
    # The other object can be deleted or get its owner back: pods of a job that was deleted with
    # --cascade=orphan run on until a user deletes them.
    Rule(seen=Seen.NAME_OF_OTHER, then=Then.HOLD, reason=Reason.POD_NAME_CONFLICT),
    # The refusal does not affect the pods that exist.
    Rule(seen=Seen.NODE_LISTS_REFUSED, then=Then.HOLD, reason=Reason.NODE_LISTS_TOO_LONG),
    # The object was deleted while the job is up: the pods that exist have what they need.
    *(Rule(seen=seen, then=Then.TELL, reason=reason, phases=_UP) for seen, reason in _BESIDE_PODS),
    # Companions cannot be changed. A job that has started is not failed because of one, though.
    Rule(
        seen=Seen.COMPANION_INVALID,
        then=Then.FAIL,
        reason=Reason.INVALID_COMPANION,
        has_started=False,
    ),
    *(
        Rule(seen=seen, then=Then.HOLD if seen in _BY_HAND else Then.WAIT, reason=reason)
        for seen, reason in _BESIDE_PODS
    ),
    # This write comes last, so all others have succeeded, and the condition shows what the job
    # waits for.
    Rule(seen=Seen.WORKLOAD_REFUSED, then=Then.TELL, reason=Reason.WORKLOAD_REFUSED),
    Rule(seen=Seen.QUOTA_EXCEEDED, then=Then.WAIT, reason=Reason.QUOTA_EXCEEDED),
    Rule(seen=Seen.CREATE_FORBIDDEN, then=Then.WAIT, reason=Reason.CREATE_FORBIDDEN),
)

WAITING: Final = frozenset(rule.reason for rule in RULES if rule.then is Then.WAIT)
"""Reasons of Pending for which a job must not retry before its back-off is over."""


def rule_for(case: Case, rules: Sequence[Rule] = RULES) -> Rule:
    """Return the first row that matches.

    Raises LookupError if none does: RULES has a row for every case.
    """
    for rule in rules:
        if rule.fits(case):
            return rule
    raise LookupError(f"no rule for {case}")
