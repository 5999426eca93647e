"""Records the nodes of a job's replicas, the time of the placement, and the
replica-seconds used.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from di_api.timestamps import format_time
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policies.ranks import allocation_by_rank
from di_operator.lifecycle.policy import NOTHING, Policy, Report


def report_placement(snapshot: Snapshot, verdict: Verdict, now: datetime) -> Report:
    """Return the placement of a job that the allocator places; nothing for others."""
    placement, before = snapshot.placement, snapshot.status
    if placement is None:
        return NOTHING
    # The allocator gives the nodes of a suspended job to others. A job that is resumed must not
    # have them before the next assignment.
    if snapshot.spec is not None and snapshot.spec.suspend:
        placement = {}
    is_new = placement != before.placement
    fields: dict[str, Any] = {
        "placement": {task: list(nodes) for task, nodes in placement.items()},
        "allocation": allocation_by_rank(snapshot) if placement else [],
        "placementTime": format_time(now if is_new else before.placed_at or now),
        "replicaSeconds": int(before.attained(now) if is_new else before.replica_seconds),
    }
    if (batch := _batch_size(snapshot)) is not None:
        fields["batchSize"] = batch
    return Report(fields=fields)


def _batch_size(snapshot: Snapshot) -> int | None:
    """Return the allocator's recommended batch size; before its first one, the recorded value."""
    grant = snapshot.grant
    if grant is not None and grant.placement is not None:
        return grant.batch_size
    return snapshot.status.batch_size


PLACEMENT: Final = Policy(report=report_placement)
