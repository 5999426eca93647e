"""Goals of `di wait`, and whether a job has reached one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from di_api.field_error import items, mapping
from di_api.phase import Phase

_STATUSES = ("True", "False", "Unknown")


class Outcome(Enum):
    """State of a job with respect to a goal."""

    REACHED = auto()
    WAITING = auto()
    IMPOSSIBLE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A phase, or a condition with its status; neither: that the job is deleted."""

    phase: Phase | None = None
    condition: str = ""
    status: str = "True"

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Parse `phase=Running`, `condition=Hung`, `condition=Hung=False`, `delete`.

        Raises ValueError with the allowed forms.
        """
        kind, _, value = text.partition("=")
        if text == "delete":
            return cls()
        if kind == "phase":
            known = {phase.value.lower(): phase for phase in Phase}
            if value.lower() in known:
                return cls(phase=known[value.lower()])
            raise ValueError(f"{value!r} is no phase; phases are {', '.join(Phase)}")
        name, _, status = value.partition("=")
        if kind == "condition" and name and (status or "True") in _STATUSES:
            return cls(condition=name, status=status or "True")
        raise ValueError("give phase=PHASE, condition=TYPE, condition=TYPE=False or delete")

    def judge(self, job: Mapping[str, Any] | None) -> Outcome:
        """Return whether a job (None: it is deleted) has reached the goal, or cannot reach it any
        more.
        """
        is_for_deletion = self.phase is None and not self.condition
        if job is None:
            return Outcome.REACHED if is_for_deletion else Outcome.IMPOSSIBLE
        if is_for_deletion:
            return Outcome.WAITING
        status = mapping(job.get("status"))
        phase = status.get("phase")
        conditions = [mapping(each) for each in items(status.get("conditions"))]
        if self.phase is not None:
            reached = phase == self.phase.value
        else:
            reached = any(
                each.get("type") == self.condition and each.get("status") == self.status
                for each in conditions
            )
        if reached:
            return Outcome.REACHED
        has_ended = phase in (Phase.SUCCEEDED.value, Phase.FAILED.value)
        return Outcome.IMPOSSIBLE if has_ended else Outcome.WAITING
