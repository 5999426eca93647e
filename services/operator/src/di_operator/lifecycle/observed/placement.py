"""Where the replicas of a preemptible job are to run: what the allocator says, and what is kept.

The allocator's word becomes the job's when the status has it; until then, and after a crash, the
job keeps what its status says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from di_api.expected_completion import ExpectedCompletion
from di_operator.lifecycle.vocabulary.reasons import Reason

Placement: TypeAlias = Mapping[str, tuple[str, ...]]
"""By task: the nodes of its replicas, by local index. Empty: the job has no room and waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What the allocator says about one job now.

    ``placement`` None means that there is nothing new. ``reason`` and ``message`` say why a job
    without room waits; for a job that the cluster's scheduler places (gang admission) they hold
    back its first pods.
    """

    placement: Placement | None = None
    reason: Reason | None = None
    message: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Of the nodes of the placement, where they are of several; pods are told theirs."""
    expected_start: ExpectedCompletion | None = None
    """When a job that waits will have room, as far as that can be told."""
    batch_size: int | None = None
    """Samples that its learners should train on together between two updates; None: no advice."""
    needs_dry_run: bool = False
    """Whether the job gets no nodes before the API server has accepted its pods in a dry run."""


def read_placement(raw: object) -> Placement | None:
    """Read ``status.placement``; None if there is none that can be read."""
    if not isinstance(raw, Mapping):
        return None
    if not all(isinstance(nodes, list) for nodes in raw.values()):
        return None
    return {str(task): tuple(map(str, nodes)) for task, nodes in raw.items()}


def is_placed(placement: Placement) -> bool:
    """Whether any replica has a node."""
    return any(placement.values())
