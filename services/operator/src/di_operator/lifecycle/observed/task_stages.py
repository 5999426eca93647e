"""How many pods of each task are at each stage, counted as they change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Final

STAGES: Final = ("Pending", "Running", "Ready", "Succeeded")
"""The stages of a pod that fails nothing, in order."""
_BEHIND: Final = {stage: STAGES[:place] for place, stage in enumerate(STAGES)}


class TaskStages:
    """Counts pods by task and stage, so that no event needs a look at all pods of its task."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, Counter[str]] = {}

    def add(self, task: Hashable, stage: str) -> None:
        """Count one pod more."""
        self._counts.setdefault(task, Counter())[stage] += 1

    def remove(self, task: Hashable, stage: str) -> None:
        """Count one pod less that was added with the same values."""
        counts = self._counts[task]
        counts[stage] -= 1
        if not counts[stage]:
            del counts[stage]
            if not counts:
                del self._counts[task]

    def is_ahead(self, task: Hashable, stage: str) -> bool:
        """Return whether a pod of the task is at an earlier stage; False for a stage that is not
        one of STAGES.
        """
        counts = self._counts.get(task, ())
        return any(earlier in counts for earlier in _BEHIND.get(stage, ()))
