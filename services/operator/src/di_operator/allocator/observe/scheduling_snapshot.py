"""The consistent input of one allocator round."""

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
    """Jobs by `<namespace>/<name>`, nodes by name, and their pods and grants."""

    jobs: Mapping[str, JobInfo]
    uids: Mapping[str, str]
    held: Mapping[str, NodeList]
    """The grant of each job, whether or not its pods exist yet."""
    present: Mapping[str, Counter[tuple[str, str]]]
    """The pods of each job that are not ending, by task and node."""
    nodes: Mapping[str, NodeInfo]
    """Their free capacity is what the jobs here can have: all but what other pods occupy."""
    now: Mapping[str, NodeInfo]
    """Their free capacity is what no pod occupies at this moment."""
    refused: Mapping[str, str]
    """The scheduler's message for jobs with a node that it refused and that is not tried now."""
    ends: Mapping[str, ExpectedCompletion]
    """The expected completion of jobs, where known."""
    unreadable: Mapping[str, Unreadable]
    """By UID: objects left out of the snapshot; for pods, their usage is not counted."""
    kept_out: Mapping[str, KeptOut] = field(default_factory=dict)
    """By UID: jobs in no other field, whose grant is withdrawn."""
    cut: frozenset[str] = frozenset()
    """Jobs that have lost a part of their grant, so that the earlier decision does not stand."""
    given_up: frozenset[str] = frozenset()
    """UIDs of jobs whose nodes others can have, although their status still shows these."""
    next_due: datetime | None = None
    """When the next grant is due to be withdrawn, or the next job to be tried again."""
    besides: Mapping[str, Resources] = field(default_factory=dict)
    """By namespace that has a queue: usage of its jobs that the allocator does not decide on."""
