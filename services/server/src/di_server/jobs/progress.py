"""Progress of a job, `status.progress`: its last step and when it grew, from the job's reports.

The times are those at which reports arrive, independent of the program's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from di_api.profilings import read_profilings
from di_api.status.heartbeats import FIELD as HEARTBEATS
from di_api.timestamps import format_time

LONGEST_REASON: Final = 1024
"""Maximum length of `rejected` in characters."""
_TRAINS: Final = (None, "", "training")
"""Names of the program phase in which steps have to grow."""
_SHARES: Final = {"waitingAt": "learnerWaitFrac", "gpuIdleAt": "gpuIdleFrac"}
"""Fields with the time at which a share of an idlePolicy was last reported."""


def advanced(before: object, profilings: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return `status.progress` after an accepted report, with `profilings` as the merged reports.

    The step is `step` of `totalSteps`, or if the program reports none, `envSteps` of `maxEnvSteps`.
    A lower step than before comes from a restarted program and does not count as progress.
    """
    held = before if isinstance(before, Mapping) else {}
    found, _ = read_profilings(profilings)
    own = "step" in found
    step = found.get("step" if own else "env_steps")
    total = found.get("total_steps" if own else "max_env_steps")
    phase, time = found.get("phase"), format_time(now)
    progress: dict[str, Any] = {"reportedAt": time}
    for key in ("progressedAt", "phaseAt", *_SHARES, HEARTBEATS):
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


def with_shares(
    progress: Mapping[str, Any], profilings: Mapping[str, Any], now: datetime
) -> dict[str, Any]:
    """Return `status.progress` with the times at which the shares of idlePolicies were reported.

    `profilings` is one accepted report alone: merged ones keep the shares of an earlier report.
    """
    times = (at for at, share in _SHARES.items() if profilings.get(share) is not None)
    return {**progress, **dict.fromkeys(times, format_time(now))}


def refused(before: object, reason: str) -> dict[str, Any]:
    """Return `status.progress` after a refused report."""
    held = before if isinstance(before, Mapping) else {}
    return {**held, "rejected": reason[:LONGEST_REASON]}


def faults(held: object, merged: Mapping[str, Any]) -> list[str]:
    """Return the faults that a report introduced, each with its path."""
    found = read_profilings(merged)[1]
    if not found or not isinstance(held, Mapping):
        return found
    before = set(read_profilings(held)[1])
    return [fault for fault in found if fault not in before]


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _as_number(value: object) -> float:
    # A value that was written by hand is ignored.
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
