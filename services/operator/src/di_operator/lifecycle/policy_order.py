"""All policies, in the order in which they are called. A new policy adds a line here."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from di_operator.lifecycle.job_types.choose import JOB_TYPE
from di_operator.lifecycle.job_types.tasks.success import SUCCESS_POLICY
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policies.blocked_pods import BLOCKED_PODS
from di_operator.lifecycle.policies.companions import COMPANIONS
from di_operator.lifecycle.policies.deadline import DEADLINE
from di_operator.lifecycle.policies.drain import DRAIN
from di_operator.lifecycle.policies.forecast import FORECAST
from di_operator.lifecycle.policies.idle import IDLE
from di_operator.lifecycle.policies.kueue_admission import QUEUE
from di_operator.lifecycle.policies.kueue_workloads import WORKLOADS_OF_QUEUE
from di_operator.lifecycle.policies.node_checks import NODE_CHECKS
from di_operator.lifecycle.policies.pending_timeout import PENDING_TIMEOUT
from di_operator.lifecycle.policies.process_groups import PROCESS_GROUPS
from di_operator.lifecycle.policies.progress import PROGRESS
from di_operator.lifecycle.policies.reclaim import RECLAIM
from di_operator.lifecycle.policies.reports.allocatable import ALLOCATABLE
from di_operator.lifecycle.policies.reports.completed_indexes import COMPLETED_INDEXES
from di_operator.lifecycle.policies.reports.denied_phase import DENIED_PHASE
from di_operator.lifecycle.policies.reports.held_pods import HELD_PODS
from di_operator.lifecycle.policies.reports.notify_targets import NOTIFY_TARGETS
from di_operator.lifecycle.policies.reports.placement import PLACEMENT
from di_operator.lifecycle.policies.reports.pod_trial import POD_TRIAL
from di_operator.lifecycle.policies.reports.reconcile_failure import RECONCILE_FAILURE
from di_operator.lifecycle.policies.reports.replica_counts import REPLICA_COUNTS
from di_operator.lifecycle.policies.reports.silent_members import SILENT_MEMBERS
from di_operator.lifecycle.policies.reports.spec_errors import SPEC_ERRORS
from di_operator.lifecycle.policies.reports.suspect_nodes import SUSPECT_NODES
from di_operator.lifecycle.policies.reports.tally import TALLY
from di_operator.lifecycle.policies.requested_restart import REQUESTED_RESTART
from di_operator.lifecycle.policies.scheduling_objects import SCHEDULING_OBJECTS
from di_operator.lifecycle.policies.server_ca import SERVER_CA
from di_operator.lifecycle.policies.suspend import SUSPENSION
from di_operator.lifecycle.policies.ttl import TTL
from di_operator.lifecycle.policy import Policy
from di_operator.lifecycle.repairs.services import EDITED_SERVICES

# The requests of the user and of the queue come first: before anything is started or counted.
BEFORE: Final[tuple[Policy, ...]] = (DEADLINE, QUEUE, SUSPENSION)
# The results of pods are counted before any of these is called.
AFTER: Final[tuple[Policy, ...]] = (
    PENDING_TIMEOUT,
    REQUESTED_RESTART,
    PROGRESS,
    # These return no verdicts.
    IDLE,
    SILENT_MEMBERS,
    COMPANIONS,
    SCHEDULING_OBJECTS,
    BLOCKED_PODS,
    PROCESS_GROUPS,
    DENIED_PHASE,
    REPLICA_COUNTS,
    COMPLETED_INDEXES,
    JOB_TYPE,
    SUCCESS_POLICY,
    PLACEMENT,
    TALLY,
    TTL,
    SPEC_ERRORS,
    POD_TRIAL,
    ALLOCATABLE,
    NODE_CHECKS,
    SUSPECT_NODES,
    NOTIFY_TARGETS,
    HELD_PODS,
    RECONCILE_FAILURE,
    FORECAST,
    RECLAIM,
    SERVER_CA,
    EDITED_SERVICES,
    DRAIN,
    WORKLOADS_OF_QUEUE,
)
POLICIES: Final = (*BEFORE, *AFTER)


def first_verdict(policies: Iterable[Policy], snapshot: Snapshot, now: datetime) -> Verdict | None:
    """Return the transition that the first deciding policy returns; None if none decides."""
    for policy in policies:
        if policy.judge is not None and (verdict := policy.judge(snapshot, now)) is not None:
            return verdict
    return None
