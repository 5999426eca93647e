"""Where a job stands."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where a job stands; written by the operator to `status.phase`."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    RESCHEDULING = "Rescheduling"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_waiting(self) -> bool:
        """Whether the job has no pods to speak of, or waits for some as long as it takes."""
        return self is Phase.PENDING

    @property
    def is_up(self) -> bool:
        """Whether every pod that the spec asks for has been made."""
        return self in (Phase.STARTING, Phase.RUNNING)

    @property
    def is_replacing(self) -> bool:
        """Whether pods are replaced, and counted that have to be."""
        return self in (Phase.RESTARTING, Phase.RESCHEDULING)

    @property
    def is_placed(self) -> bool:
        """Whether the job has pods, and a change of them is counted."""
        return self.is_up or self.is_replacing

    @property
    def is_finished(self) -> bool:
        """Whether the job has ended and will never run again."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)
