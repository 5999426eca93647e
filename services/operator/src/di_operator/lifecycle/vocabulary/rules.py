"""What is done about what goes wrong: one table, for pods that end and for writes that are refused.

The first row that fits decides; a column that is left out fits everything. Rows are data: nothing
else knows conditions of pods, and nothing in here knows how an answer is carried out. Reasons of
pods are no column: the cluster has more of them than a table could name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from di_api.phase import Phase
from di_operator.lifecycle.vocabulary.reasons import Reason


class Part(StrEnum):
    """What a pod is to its job."""

    TASK = "replica of a task"
    ELASTIC = "replica of the elastic tier of a task"
    """Of pods that failed, and of refused writes, those of pods that stand by too. Whether one is
    lost is asked as of TASK."""
    COORDINATOR = "coordinator"
    REPLICA = "replica that a coordinator asked for"


class Seen(StrEnum):
    """What may be seen of a pod, or come of a write.

    Refused writes stand in the order of their gravity: where several of one batch were refused,
    the first of them decides.
    """

    POD_FAILED = "pod whose replica has failed and that nobody deleted"
    POD_DELETED = "pod that is being deleted"
    POD_GONE = "pod that vanished between two looks"
    TEMPLATE_REFUSED = "pod or Service that the API server calls invalid (422)"
    NAME_OF_OWN = "object of this job that has the name already"
    NAME_OF_EARLIER = "object of an earlier job of the same name that has the name"
    NAME_OF_OTHER = "object of somebody else that has the name"
    NODE_LISTS_REFUSED = "ConfigMap of the node lists that the API server calls invalid (422)"
    COMPANION_INVALID = "companion that the API server calls invalid (400, 413, 422)"
    COMPANION_NAME_TAKEN = "object of somebody else that has the name of a companion"
    COMPANION_KIND_MISSING = "companion of a kind that nobody serves (404), or nobody may make"
    COMPANION_OVER_QUOTA = "companion beyond a ResourceQuota (403)"
    COMPANION_FORBIDDEN = "companion that admission or authorization refused (403), quota apart"
    SCHEDULING_KIND_MISSING = "object for a scheduler of a kind that nobody serves (404)"
    SCHEDULING_OBJECT_REFUSED = "object for a scheduler that is refused, or whose name is taken"
    WORKLOAD_REFUSED = "Workload that Kueue or the API server refused (403, 404, 422)"
    QUOTA_EXCEEDED = "object beyond a ResourceQuota (403)"
    CREATE_FORBIDDEN = "object that admission or authorization refused (403), quota apart"


class Then(StrEnum):
    """What is done about it."""

    FAIL = "the job has failed"
    """Of pods: the coordinator's only."""
    RESTART = "counted in restarts, and replaced"
    """Of pods: all but the coordinator's. A job with tasks has failed at its backoffLimit."""
    RENEW = "counted in restarts, and goes on in its pod"
    """Of pods whose container failed, where a rule of the job says so."""
    RESCHEDULE = "counted in reschedules, and replaced"
    IGNORE = "replaced where it is missing, and not counted"
    """Of pods that are deleted or gone."""
    WAIT = "the job is Pending, and tries again after growing pauses"
    HOLD = "the phase stays, and the job tries again"
    TELL = "a Warning, and another try; all else goes on"
    DELETE = "what has the name is deleted"
    LOOK = "the watch will show it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What was seen, and around it what rows may ask for."""

    seen: Seen
    part: Part
    phase: Phase | None
    """Of the job; None: its status is not written yet."""
    has_started: bool = True
    """Whether the job has been past Pending, by its status."""
    has_begun: bool = True
    """Whether any container of the pod ran."""
    pod_conditions: frozenset[str] = frozenset()
    """Types of the pod's conditions that are True."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A row: what is done, and when."""

    seen: Seen
    then: Then
    reason: Reason | None = None
    """Of the condition or Warning that tells of a refused write."""
    part: Part | None = None
    phases: frozenset[Phase] | None = None
    has_started: bool | None = None
    has_begun: bool | None = None
    pod_condition: str | None = None

    def fits(self, case: Case) -> bool:
        """Whether the row speaks of the case."""
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
"""What no later try puts right, unless a user has done something about it."""

RULES: Final[tuple[Rule, ...]] = (
    # The kubelet or the control plane ended the pod for reasons of the cluster, not of the program:
    # Kubernetes 1.26 and newer gives this condition for all of them. An eviction without it is for
    # the pod's own limit, as is the end by its own deadline: that is the program's doing.
    Rule(seen=Seen.POD_FAILED, then=Then.RESCHEDULE, pod_condition="DisruptionTarget"),
    # The kubelet refused it, or ended it while it waited.
    Rule(seen=Seen.POD_FAILED, then=Then.RESCHEDULE, has_begun=False),
    Rule(seen=Seen.POD_FAILED, then=Then.FAIL, part=Part.COORDINATOR),
    Rule(seen=Seen.POD_FAILED, then=Then.RESTART),
    # While Pending, pods that end do so because we suspended the job or it was preempted.
    Rule(seen=Seen.POD_DELETED, then=Then.RESCHEDULE, part=Part.TASK, phases=_PLACED),
    Rule(seen=Seen.POD_DELETED, then=Then.IGNORE, part=Part.TASK),
    Rule(seen=Seen.POD_DELETED, then=Then.RESCHEDULE, phases=_UP),
    Rule(seen=Seen.POD_DELETED, then=Then.IGNORE),
    # Nothing tells a replica that vanished from one that was just asked for.
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
    # A coordinator may do without what it asked for; its template can be put right.
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
    # The watch has not shown it yet, or its end would have been waited for.
    Rule(seen=Seen.NAME_OF_EARLIER, then=Then.DELETE),
    # The pods are there, and need no more than they have.
    Rule(
        seen=Seen.NAME_OF_OTHER,
        then=Then.TELL,
        reason=Reason.POD_NAME_CONFLICT,
        phases=_UP,
    ),
    # Whatever has the name can go, or get its owner back: pods of a job that was deleted with
    # --cascade=orphan run on for as long as somebody wants them.
    Rule(seen=Seen.NAME_OF_OTHER, then=Then.HOLD, reason=Reason.POD_NAME_CONFLICT),
    # It says nothing about the pods that exist.
    Rule(seen=Seen.NODE_LISTS_REFUSED, then=Then.HOLD, reason=Reason.NODE_LISTS_TOO_LONG),
    # Somebody has deleted it while the job is up: the pods that are there have what they need.
    *(Rule(seen=seen, then=Then.TELL, reason=reason, phases=_UP) for seen, reason in _BESIDE_PODS),
    # Companions may not change. What a job has done is not thrown away for one, though.
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
    # It is done last, so all else has happened, and the condition says what the job waits for.
    Rule(seen=Seen.WORKLOAD_REFUSED, then=Then.TELL, reason=Reason.WORKLOAD_REFUSED),
    Rule(seen=Seen.QUOTA_EXCEEDED, then=Then.WAIT, reason=Reason.QUOTA_EXCEEDED),
    Rule(seen=Seen.CREATE_FORBIDDEN, then=Then.WAIT, reason=Reason.CREATE_FORBIDDEN),
)

WAITING: Final = frozenset(rule.reason for rule in RULES if rule.then is Then.WAIT)
"""Reasons of Pending for which a job must not try again before its pause is over."""


def rule_for(case: Case, rules: Sequence[Rule] = RULES) -> Rule:
    """Return the first row that fits.

    Raises LookupError if none does: RULES has one for every case.
    """
    for rule in rules:
        if rule.fits(case):
            return rule
    raise LookupError(f"no rule for {case}")
