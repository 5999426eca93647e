"""The nodes of a preemptible job's replicas: the allocator's assignment, and the one in the
status.

An assignment takes effect when the status has it. Until then, and after a crash, the job keeps the
one in its status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from di_api.expected_completion import ExpectedCompletion
from di_operator.lifecycle.vocabulary.reasons import Reason

Placement: TypeAlias = Mapping[str, tuple[str, ...]]
"""Nodes of the replicas by task and local index. Empty: the job has no nodes and waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The allocator's present assignment for one job.

    ``placement`` None means that it has not changed. ``reason`` and ``message`` explain why a job
    without nodes waits. For a job that the cluster's scheduler places (gang admission), they keep
    its first pods from being created.
    """

    placement: Placement | None = None
    reason: Reason | None = None
    message: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Node types of the placement if there are several; the pods get theirs in the environment."""
    expected_start: ExpectedCompletion | None = None
    """Expected time at which a waiting job gets nodes, if there is a forecast."""
    batch_size: int | None = None
    """Recommended number of samples per update for all learners together; None without a
    recommendation.
    """
    needs_dry_run: bool = False
    """Whether the API server has to accept the job's pods in a dry run before it gets nodes."""


def read_placement(raw: object) -> Placement | None:
    """Return ``status.placement``; None if it is missing or cannot be read."""
    if not isinstance(raw, Mapping):
        return None
    if not all(isinstance(nodes, list) for nodes in raw.values()):
        return None
    return {str(task): tuple(map(str, nodes)) for task, nodes in raw.items()}


def is_placed(placement: Placement | None) -> bool:
    """Return whether any replica has a node; None: there is no placement."""
    return any((placement or {}).values())
