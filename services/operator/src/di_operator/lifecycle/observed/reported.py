"""What di-server writes of a job's reports: `status.progress`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from di_operator.lifecycle.vocabulary.timestamps import parse_time

_LARGEST: Final = 1.7e308


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What can be read of it; times are those at di-server, by the API server's clock."""

    reported_at: datetime | None
    """Of the last report; None: there has been none."""
    progressed_at: datetime | None
    """When the step last grew."""
    phase: str
    """What the program says that it does in place of steps; empty: it trains."""
    phase_at: datetime | None
    """When that last changed."""
    step: float | None
    total: float | None
    """How many steps there are to be, as far as the program says so."""
    rejected: str
    """What is wrong with the last report, of which nothing was kept; empty: it was a good one."""

    @classmethod
    def read(cls, raw: object) -> Reported:
        """Read a value of any shape."""
        fields = raw if isinstance(raw, Mapping) else {}
        phase, step, rejected = (fields.get(key) for key in ("phase", "step", "rejected"))
        return cls(
            reported_at=parse_time(fields.get("reportedAt")),
            progressed_at=parse_time(fields.get("progressedAt")),
            phase=phase if isinstance(phase, str) else "",
            phase_at=parse_time(fields.get("phaseAt")),
            step=read_number(step),
            total=read_number(fields.get("totalSteps")),
            rejected=rejected if isinstance(rejected, str) else "",
        )


def read_number(value: object) -> float | None:
    """A finite number of JSON; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An integer may be too large for a float.
    return float(value) if -_LARGEST <= value <= _LARGEST else None
