"""The phases of a job."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """Phase of a job; the operator writes it to `status.phase`."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    RESCHEDULING = "Rescheduling"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_waiting(self) -> bool:
        """Return whether the job has no pods, or can wait for some without a time limit."""
        return self is Phase.PENDING

    @property
    def is_up(self) -> bool:
        """Return whether every pod that the spec requests has been created."""
        return self in (Phase.STARTING, Phase.RUNNING)

    @property
    def is_replacing(self) -> bool:
        """Return whether pods are being replaced, and new failures are counted."""
        return self in (Phase.RESTARTING, Phase.RESCHEDULING)

    @property
    def is_placed(self) -> bool:
        """Return whether the job has pods, and a change of its placement counts as a reschedule."""
        return self.is_up or self.is_replacing

    @property
    def is_finished(self) -> bool:
        """Return whether the job has ended and will never run again."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)


def has_finished(job: Mapping[str, Any]) -> bool:
    """Return whether a raw job of any shape has ended and will never run again."""
    status = job.get("status")
    return isinstance(status, Mapping) and status.get("phase") in (Phase.SUCCEEDED, Phase.FAILED)
