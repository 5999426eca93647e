"""The status of a job: read, written, and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from di_api.expected_completion import ExpectedCompletion
from di_api.phase import Phase
from di_api.status.groups import GroupStatus, read_groups
from di_api.timestamps import format_time
from di_operator.lifecycle.observed.completed import Completed, read_completed
from di_operator.lifecycle.observed.expected_completion import Mark
from di_operator.lifecycle.observed.ledger import Ledger, count
from di_operator.lifecycle.observed.placement import Placement, read_placement
from di_operator.lifecycle.observed.reported import Reported
from di_operator.lifecycle.observed.restart_requests import RestartRequests
from di_operator.lifecycle.vocabulary import conditions
from di_operator.lifecycle.vocabulary.timestamps import parse_time

AvoidedNodes: TypeAlias = Mapping[str, Mapping[str, datetime]]
"""Times until which tasks avoid nodes: by task, then by node."""

ReplicaKey: TypeAlias = tuple[str, int]
"""A replica: the name of its task, and its index there."""

MAX_ATTEMPT = 99_998
"""Largest restart count of a task that is read from a status; a pod may have one more."""

_MAX_DIGITS = 5
"""Maximum number of digits of an index: more than any job needs."""

_PHASES: Final = {phase.value: phase for phase in Phase}
_STARTED: Final = frozenset(phase.value for phase in Phase if not phase.is_waiting)
"""Phases, and so conditions, of a job that has left Pending."""

OWNED_FIELDS = (
    "observedGeneration",
    "phase",
    "conditions",
    "replicas",
    "readyReplicas",
    "restarts",
    "reschedules",
    *("restartAttempts", "replicaAttempts", "restartedAt"),
    *("jobRestarts", "taskRestarts", "replicaFailures"),
    *("taskStatus", "completedIndexes"),
    "replicaStatus",
    "placement",
    "allocation",
    "placementTime",
    "replicaSeconds",
    "batchSize",
    "failures",
    *("groups", "standIns"),
    "admitted",
    *("avoidedNodes", "idleSince"),
    *("expectedCompletion", "expectedStart", "pace"),
    "startTime",
    "completionTimestamp",
)
"""Fields the operator writes. ``profilings`` and ``progress`` belong to the server and are never
touched.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A parsed status; what cannot be read, after a wipe or an edit by hand, counts as absent.

    So does a finished phase whose condition is not True: the operator writes both at once.
    """

    phase: Phase | None
    denied: Phase | None
    """A finished phase in the status that no condition confirms."""
    restarts: int
    reschedules: int
    restart_attempts: Mapping[str, int]
    """Number of restarts as a whole, by task; tasks without any are left out."""
    replica_attempts: Mapping[str, Mapping[int, int]]
    """Number of restarts of replicas with several pods, by task; zeros are left out."""
    handled_requests: RestartRequests
    """Restart requests that are included in these counts."""
    ledger: Ledger
    losses: tuple[Mapping[str, Any], ...]
    """Pods that are already counted in ``restarts`` or ``reschedules``, oldest first."""
    desired: Mapping[str, int] | None
    """Replicas of each task that this status was written for, None if unknown."""
    completed_indexes: Completed
    """Local indexes of the succeeded pods by task, those of deleted pods included."""
    placement: Placement | None
    """The allocator's placement of the replicas that this status was written for."""
    placed_at: datetime | None
    """Time since which the placement holds."""
    replica_seconds: float
    """Replica-seconds of all earlier placements."""
    batch_size: int | None
    """The batch size that the allocator recommended."""
    groups: Mapping[str, GroupStatus]
    """The process groups, by task."""
    avoided_nodes: AvoidedNodes
    """Nodes to avoid, expired entries included."""
    conditions: Mapping[str, Mapping[str, Any]]
    """Conditions by type."""
    expectation: ExpectedCompletion | None
    pace: Mark | None
    started: datetime | None
    completed: datetime | None
    reported: Reported
    raw: Mapping[str, Any]

    @classmethod
    def read(cls, raw: object) -> Status:
        """Read ``job["status"]`` of any shape."""
        fields: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}
        phase = _phase(fields.get("phase"))
        denied = phase is not None and phase.is_finished and not _confirms(fields, phase)
        return cls(
            phase=None if denied else phase,
            denied=phase if denied else None,
            restarts=count(fields.get("restarts")),
            reschedules=count(fields.get("reschedules")),
            restart_attempts=_counts(fields.get("restartAttempts"), most=MAX_ATTEMPT),
            replica_attempts=_replica_attempts(fields.get("replicaAttempts")),
            handled_requests=RestartRequests.read(fields.get("restartedAt")),
            ledger=Ledger.read(fields),
            losses=_losses(fields.get("failures")),
            desired=_desired(fields.get("taskStatus")),
            completed_indexes=read_completed(fields.get("completedIndexes")),
            placement=read_placement(fields.get("placement")),
            placed_at=parse_time(fields.get("placementTime")),
            replica_seconds=float(count(fields.get("replicaSeconds"))),
            batch_size=count(fields.get("batchSize")) or None,
            groups=read_groups(fields),
            avoided_nodes=read_avoided(fields.get("avoidedNodes")),
            conditions=conditions.well_formed(fields.get("conditions")),
            expectation=ExpectedCompletion.read(fields.get("expectedCompletion")),
            pace=Mark.read(fields.get("pace")),
            started=parse_time(fields.get("startTime")),
            completed=parse_time(fields.get("completionTimestamp")),
            reported=Reported.read(fields.get("progress")),
            raw=fields,
        )

    @property
    def is_finished(self) -> bool:
        """Return whether the job has ended."""
        return self.phase is not None and self.phase.is_finished

    @property
    def is_waiting(self) -> bool:
        """Return whether the job is waiting or has not been reconciled yet."""
        return self.phase is None or self.phase.is_waiting

    @property
    def is_up(self) -> bool:
        """Return whether every pod had been created when this was written."""
        return self.phase is not None and self.phase.is_up

    @property
    def is_replacing(self) -> bool:
        """Return whether pods are being replaced."""
        return self.phase is not None and self.phase.is_replacing

    @property
    def is_placed(self) -> bool:
        """Return whether the job has pods whose changes are counted."""
        return self.phase is not None and self.phase.is_placed

    @property
    def has_started(self) -> bool:
        """Return whether this status shows that the job has left Pending, or that a pod of it ran.

        False for a wiped status, even if pods run.
        """
        return (
            not self.is_waiting
            or not _STARTED.isdisjoint(self.conditions)
            or self.restarts + self.reschedules > 0
            or _ran(self.raw.get("taskStatus"))
        )

    @property
    def job_restarts(self) -> int:
        """Return the restarts that count for the job's own limit."""
        own = self.ledger.job_restarts
        return self.restarts if own is None else own

    @property
    def counted(self) -> frozenset[str]:
        """Return the UIDs of the pods that are already counted."""
        return frozenset(loss["uid"] for loss in self.losses)

    @property
    def succeeded(self) -> Mapping[str, int]:
        """Return the number of succeeded pods by task when this was written."""
        found = self.raw.get("taskStatus")
        return {
            task: count(counts.get("Succeeded"))
            for task, counts in (found if isinstance(found, Mapping) else {}).items()
            if isinstance(counts, Mapping)
        }

    def attained(self, now: datetime) -> float:
        """Return the replica-seconds that have been assigned to the job so far."""
        if self.placement is None or self.placed_at is None:
            return self.replica_seconds
        # A clock that was set back must not reduce the sum.
        passed = max(0.0, (now - self.placed_at).total_seconds())
        return self.replica_seconds + passed * sum(map(len, self.placement.values()))

    @property
    def condition(self) -> Mapping[str, Any] | None:
        """The condition of the present phase."""
        return self.conditions.get(self.phase.value) if self.phase else None

    @property
    def reason(self) -> str | None:
        """The reason of the present phase."""
        return self.condition["reason"] if self.condition else None

    @property
    def transitioned(self) -> datetime | None:
        """The time at which the present phase was entered."""
        return parse_time((self.condition or {}).get("lastTransitionTime"))

    @property
    def updated(self) -> datetime | None:
        """The time of the last write of the status."""
        return parse_time((self.condition or {}).get("lastUpdateTime"))


def with_owned(present: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status with the operator's fields of ``new`` and the present ones of others.

    Both are values of ``job["status"]``. What ``new`` lacks of the operator's fields is left out.
    """
    return {
        **{key: value for key, value in present.items() if key not in OWNED_FIELDS},
        **{key: new[key] for key in OWNED_FIELDS if key in new},
    }


def _phase(value: object) -> Phase | None:
    return _PHASES.get(value) if isinstance(value, str) else None


def _confirms(fields: Mapping[str, Any], phase: Phase) -> bool:
    # Malformed conditions count too: a job that ended under another controller must not start
    # again.
    written = fields.get("conditions")
    return isinstance(written, list) and any(
        isinstance(one, Mapping) and one.get("type") == phase.value and one.get("status") == "True"
        for one in written
    )


def _losses(failures: object) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(failures, list):
        return ()
    return tuple(
        loss for loss in failures if isinstance(loss, Mapping) and isinstance(loss.get("uid"), str)
    )


def dump_avoided(avoided: AvoidedNodes) -> dict[str, Any]:
    """Return the value of the field `avoidedNodes`."""
    return {
        task: {node: format_time(until) for node, until in nodes.items()}
        for task, nodes in avoided.items()
    }


def read_avoided(written: object) -> AvoidedNodes:
    """Return the nodes that each task avoids, of a field `avoidedNodes` of any shape."""
    tasks = written.items() if isinstance(written, Mapping) else ()
    return {
        task: {node: until for node, text in nodes.items() if (until := parse_time(text))}
        for task, nodes in tasks
        if isinstance(nodes, Mapping)
    }


def has_running_pods(task_status: object) -> bool:
    """Return whether `taskStatus` counts a pod that has started and has not ended."""
    return not _phases(task_status) <= {"Pending", "Succeeded", "Failed"}


def _ran(task_status: object) -> bool:
    """Return whether a pod is counted in a phase other than that of replicas without a pod."""
    return not _phases(task_status) <= {"Pending"}


def _phases(task_status: object) -> set[object]:
    """Return the phases in which pods are counted; replicas without a pod are Pending."""
    tasks = task_status.values() if isinstance(task_status, Mapping) else ()
    counts = [one for task in tasks if isinstance(task, Mapping) for one in task.items()]
    return {phase for phase, number in counts if count(number)}


def _counts(value: object, *, most: int) -> Mapping[str, int]:
    found = value if isinstance(value, Mapping) else {}
    return {str(name): min(number, most) for name, raw in found.items() if (number := count(raw))}


def _replica_attempts(value: object) -> Mapping[str, Mapping[int, int]]:
    tasks = value if isinstance(value, Mapping) else {}
    return {
        str(task): {int(index): number for index, number in found.items()}
        for task, counts in tasks.items()
        if (found := {i: n for i, n in _counts(counts, most=MAX_ATTEMPT).items() if _is_index(i)})
    }


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def _desired(task_status: object) -> Mapping[str, int] | None:
    # Every replica of the spec is counted under exactly one pod phase (Pending without a pod), so
    # the sum is the number that the spec requested when the status was written.
    if not isinstance(task_status, Mapping) or not task_status:
        return None
    if not all(isinstance(counts, Mapping) for counts in task_status.values()):
        return None
    return {task: sum(map(count, counts.values())) for task, counts in task_status.items()}
