"""How far a job has come, and when it last got further: `status.progress`, from its reports.

The times are those of the reports' arrival, whatever the program's clock says.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from di_api.profilings import read_profilings
from di_api.timestamps import format_time

LONGEST_REASON: Final = 1024
"""Characters of `rejected`."""
_TRAINS: Final = (None, "", "training")
"""What a program calls the phase in which its steps are to grow."""


def advanced(before: object, profilings: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """`status.progress` after a good report, which made `profilings` of all that was reported.

    The step is `step` of `totalSteps`, or where a program reports none `envSteps` of `maxEnvSteps`.
    One that is lower than before is that of a program that has begun anew, and no progress.
    """
    held = before if isinstance(before, Mapping) else {}
    found, _ = read_profilings(profilings)
    own = "step" in found
    step = found.get("step" if own else "env_steps")
    total = found.get("total_steps" if own else "max_env_steps")
    phase, time = found.get("phase"), format_time(now)
    progress: dict[str, Any] = {"reportedAt": time}
    for key in ("progressedAt", "phaseAt"):
        if key in held:
            progress[key] = held[key]
    if phase not in _TRAINS:
        progress["phase"] = phase
    if progress.get("phase") != held.get("phase"):
        progress["phaseAt"] = time
    if step is not None:
        progress["step"] = _number(step)
        if step > _as_number(held.get("step")):
            progress["progressedAt"] = time
        if total:
            progress["totalSteps"] = _number(total)
            progress["percent"] = f"{int(min(100.0, 100 * step / total))}%"
    return progress


def refused(before: object, reason: str) -> dict[str, Any]:
    """`status.progress` after a report of which nothing is kept."""
    held = before if isinstance(before, Mapping) else {}
    return {**held, "rejected": reason[:LONGEST_REASON]}


def faults(held: object, merged: Mapping[str, Any]) -> list[str]:
    """What a report has made wrong of what was held, each with its path."""
    found = read_profilings(merged)[1]
    if not found or not isinstance(held, Mapping):
        return found
    before = set(read_profilings(held)[1])
    return [fault for fault in found if fault not in before]


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _as_number(value: object) -> float:
    # What somebody wrote by hand counts for nothing.
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
