"""What the allocator decides on, as one consistent look at the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from di_api.expected_completion import ExpectedCompletion
from di_operator.allocator.model.job import JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.resources import Resources
from di_operator.allocator.observe.inventory import Unreadable
from di_operator.allocator.withdrawals.withdrawals import KeptOut


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingSnapshot:
    """Jobs by `<namespace>/<name>`, nodes by name, and who is where."""

    jobs: Mapping[str, JobInfo]
    uids: Mapping[str, str]
    held: Mapping[str, NodeList]
    """What each job has been given, whether or not its pods are there yet."""
    present: Mapping[str, Counter[tuple[str, str]]]
    """The pods of each job that are not ending, by task and node."""
    nodes: Mapping[str, NodeInfo]
    """Free is what the jobs here can have: all but the room of everybody else."""
    now: Mapping[str, NodeInfo]
    """Free is what nobody takes at this moment."""
    refused: Mapping[str, str]
    """Of jobs that the cluster's scheduler refused a node that is not tried now: its words."""
    ends: Mapping[str, ExpectedCompletion]
    """When jobs are expected to be complete, of those of which that is known."""
    unreadable: Mapping[str, Unreadable]
    """By UID: what is not in the snapshot, or of pods: whose room is not reckoned with."""
    kept_out: Mapping[str, KeptOut] = field(default_factory=dict)
    """By UID: jobs in no other field, whose grant is withdrawn."""
    cut: frozenset[str] = frozenset()
    """Jobs that have lost a part of their grant: what was decided before does not stand."""
    next_due: datetime | None = None
    """When a grant is due to be withdrawn, or a job to be tried again."""
    besides: Mapping[str, Resources] = field(default_factory=dict)
    """By namespace that has a queue: what its jobs have that the allocator does not decide on."""
