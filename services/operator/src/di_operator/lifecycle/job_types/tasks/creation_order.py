"""The order in which the pods of a job are created: by the role of their task.

A quota may admit only some of them. A learner without collectors gets further than collectors
without a learner, and collectors are the most numerous pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from di_api.spec import TaskType
from di_operator.lifecycle.observed.snapshot import Slot

_STAGES: Final = {
    TaskType.LEARNER: 0,
    TaskType.NONE: 1,
    TaskType.EVALUATOR: 1,
    TaskType.COLLECTOR: 2,
}
"""Pods of a later stage are created when those of all earlier stages exist."""
LAST_STAGE: Final = max(_STAGES.values())


def creation_stage(slot: Slot) -> int:
    """Return the stage in which the pod of a slot is created."""
    return _STAGES[slot.task.type]


def in_creation_order(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """Return the slots by stage; those of one stage stay in the order of the spec."""
    return tuple(sorted(slots, key=creation_stage))
