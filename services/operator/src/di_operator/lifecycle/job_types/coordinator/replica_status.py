"""The pods of a job with a coordinator, counted by role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from di_api.phase import Phase
from di_api.spec import Role
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.vocabulary.reasons import Reason

_KEYS: Final[Mapping[Role, str]] = {
    Role.COORDINATOR: "Coordinator",
    Role.AGGREGATOR: "Aggregator",
    Role.COLLECTOR: "Collector",
    Role.LEARNER: "Learner",
    Role.DDP_LEARNER: "Learner",
}


def replica_status(snapshot: Snapshot, phase: Phase) -> dict[str, dict[str, int]]:
    """Return ``status.replicaStatus`` of a job that is in ``phase`` now.

    When the job succeeds, its running replicas count as succeeded. When it fails, none counts as
    active; a replica in a crash loop does not count as active either.
    """
    counts = {key: dict.fromkeys(("active", "succeeded", "failed"), 0) for key in _KEYS.values()}
    succeeded = {pod.name for pod in snapshot.succeeded}
    failed = {pod.name for pod in (*snapshot.failed, *snapshot.disrupted)}
    crashing = {pod.name for pod in snapshot.live if _is_crashing(pod)}
    for slot in snapshot.slots:
        if slot.name in failed:
            outcome = "failed"
        elif slot.name in succeeded or phase is Phase.SUCCEEDED:
            outcome = "succeeded"
        elif phase is Phase.FAILED or slot.name in crashing:
            continue
        else:
            outcome = "active"
        counts[_KEYS[Role(slot.task.name)]][outcome] += 1
    return counts


def _is_crashing(pod: Pod) -> bool:
    return pod.blocker is not None and pod.blocker.reason is Reason.CRASH_LOOP_BACK_OFF
