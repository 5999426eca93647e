"""The reports of a job as di-server writes them: `status.progress`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from di_api.field_error import mapping
from di_api.status.heartbeats import Heartbeat, read_heartbeats
from di_operator.lifecycle.vocabulary.timestamps import parse_time

_LARGEST: Final = 1.7e308


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The readable part of the reports; times are those of di-server, by the API server's clock."""

    reported_at: datetime | None
    """Time of the last report; None without a report."""
    progressed_at: datetime | None
    """Time at which the step last grew."""
    waiting_at: datetime | None
    """Time at which the learners' share of waiting was last reported."""
    gpu_idle_at: datetime | None
    """Time at which the idle share of GPUs was last reported."""
    phase: str
    """What the program reports to be doing other than steps, such as an evaluation; empty:
    training.
    """
    phase_at: datetime | None
    """Time at which that last changed."""
    step: float | None
    total: float | None
    """Total number of steps, if the program reports it."""
    rejected: str
    """The error in the last report, which was dropped; empty if the report was valid."""
    heartbeats: Mapping[str, Heartbeat] = field(default_factory=dict)
    """The last heartbeat of each member that sends them, by its pod."""

    @classmethod
    def read(cls, raw: object) -> Reported:
        """Read a value of any shape."""
        fields = mapping(raw)
        phase, step, rejected = (fields.get(key) for key in ("phase", "step", "rejected"))
        return cls(
            reported_at=parse_time(fields.get("reportedAt")),
            progressed_at=parse_time(fields.get("progressedAt")),
            waiting_at=parse_time(fields.get("waitingAt")),
            gpu_idle_at=parse_time(fields.get("gpuIdleAt")),
            phase=phase if isinstance(phase, str) else "",
            phase_at=parse_time(fields.get("phaseAt")),
            step=read_number(step),
            total=read_number(fields.get("totalSteps")),
            heartbeats=read_heartbeats(fields),
            rejected=rejected if isinstance(rejected, str) else "",
        )


def read_number(value: object) -> float | None:
    """Return a finite JSON number; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An integer can be too large for a float.
    return float(value) if -_LARGEST <= value <= _LARGEST else None
