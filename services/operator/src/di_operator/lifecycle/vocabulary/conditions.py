"""The conditions of a job: one for each phase that it has reached, and others.

Exactly one of those for phases is True. The others are Suspended and the problems of the job (each
a ``Problem``). A condition that turns False keeps its reason and message, so the list is the job's
history. Every condition is well-formed by the API conventions (type, status, reason, message,
times): tools such as kstatus report a job with a malformed condition as never ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from di_api.field_error import items, mapping
from di_api.phase import Phase
from di_api.timestamps import format_time
from di_operator.kueue.multikueue import QUEUED
from di_operator.lifecycle.vocabulary.reasons import Problem, Reason

SUSPENDED = "Suspended"
BELOW_MINIMUM = "BelowMinimum"
"""Some task has fewer ready pods than it needs; written only if a deadline depends on it."""
SUCCESS_CRITERIA_MET = "SuccessCriteriaMet"
"""As in batch/v1 Job: the success policy is met, and the other pods are being terminated."""
REASON_RESUMED = "JobResumed"
REASON_GONE = "CauseGone"
"""Reason of a condition that no decision reports any more."""

# Far below the API server's limit of 32768 for metav1.Condition messages: people read them.
MAX_MESSAGE = 1024

OWN_ASIDES = frozenset({SUSPENDED, BELOW_MINIMUM, SUCCESS_CRITERIA_MET, QUEUED, *Problem})
"""Types of the conditions, other than those of phases, that this operator writes.

Each is True for as long as decisions report it. Conditions of other types stay as they are.
"""

_PHASES = frozenset(phase.value for phase in Phase)
_STATUSES = ("True", "False", "Unknown")

Condition = Mapping[str, Any]


def well_formed(conditions: object) -> dict[str, Condition]:
    """Return the well-formed conditions by type; malformed ones are dropped."""
    seen: dict[str, Condition] = {}
    for condition in map(mapping, items(conditions)):
        kind = condition.get("type")
        texts = [condition.get(key) for key in ("reason", "message")]
        if (
            isinstance(kind, str)
            and condition.get("status") in _STATUSES
            and all(isinstance(text, str) for text in texts)
        ):
            seen[kind] = condition
    return seen


def is_true(conditions: Mapping[str, Condition], kind: str) -> bool:
    """Return whether the condition of that type exists and is True."""
    condition = conditions.get(kind)
    return condition is not None and condition["status"] == "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """The wanted state of a condition that is not a phase; it is first written when it is True."""

    type: str
    value: bool
    reason: str
    message: str

    def is_news(self, conditions: Mapping[str, Condition]) -> bool:
        """Return whether the written status or reason is another one; its message may lag."""
        if not self.value:
            return is_true(conditions, self.type)
        found = conditions.get(self.type)
        return found is None or (found["status"], found["reason"]) != ("True", self.reason)


def kept(old: Mapping[str, Condition], *kinds: str) -> Iterator[Aside]:
    """Yield those of the conditions that are True, unchanged."""
    for kind in filter(partial(is_true, old), kinds):
        reason, message = old[kind]["reason"], old[kind]["message"]
        yield Aside(type=kind, value=True, reason=reason, message=message)


def taken_back(old: Mapping[str, Condition], asides: Iterable[Aside]) -> Iterator[Aside]:
    """Yield the conditions of this operator that turn False because no decision reports them."""
    for kind in OWN_ASIDES - {aside.type for aside in asides}:
        if is_true(old, kind):
            message = "it no longer applies to the job"
            yield Aside(type=kind, value=False, reason=REASON_GONE, message=message)


def advance(
    old: Mapping[str, Condition],
    *,
    phase: Phase,
    reason: str,
    message: str,
    asides: Iterable[Aside],
    generation: int,
    now: datetime,
) -> list[dict[str, Any]]:
    """Return the conditions of a job that is in ``phase`` now, those of phases first.

    A job whose first status is a later phase has passed Pending all the same, and gets that
    condition as False. Conditions of a type that is neither a phase nor among ``asides`` stay as
    they are.
    """
    written = {kind: dict(condition) for kind, condition in old.items()}
    put = partial(_put, written, generation=generation, now=now)
    if Phase.PENDING.value not in written and phase is not Phase.PENDING:
        put(Phase.PENDING.value, False, Reason.JOB_PENDING, "job accepted")
    for kind, condition in list(written.items()):
        if kind in _PHASES and kind != phase.value and condition["status"] != "False":
            put(kind, False, condition["reason"], condition["message"])
    put(phase.value, True, reason, message)
    for aside in asides:
        if aside.value or is_true(written, aside.type):
            put(aside.type, aside.value, aside.reason, aside.message)
    return _in_order(written)


def with_aside(
    old: Mapping[str, Condition], aside: Aside, *, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """Return the conditions with one more that is not a phase; those of phases stay as they are."""
    written = {kind: dict(condition) for kind, condition in old.items()}
    _put(
        written,
        aside.type,
        aside.value,
        aside.reason,
        aside.message,
        generation=generation,
        now=now,
    )
    return _in_order(written)


def stamp(written: Iterable[dict[str, Any]], phase: Phase, now: datetime) -> None:
    """Write the time of the update to the condition of the phase."""
    for condition in written:
        if condition["type"] == phase.value:
            condition["lastUpdateTime"] = format_time(now)


def _put(
    written: dict[str, dict[str, Any]],
    kind: str,
    value: bool,
    reason: str,
    message: str,
    *,
    generation: int,
    now: datetime,
) -> None:
    before = written.get(kind, {})
    after = {
        "type": kind,
        "status": str(value),
        "reason": str(reason),
        "message": message[:MAX_MESSAGE],
        "lastUpdateTime": before.get("lastUpdateTime"),
        "lastTransitionTime": before.get("lastTransitionTime"),
        "observedGeneration": generation,
    }
    if before.get("status") != after["status"] or not after["lastTransitionTime"]:
        after["lastTransitionTime"] = format_time(now)
    if after != before:
        after["lastUpdateTime"] = format_time(now)
    written[kind] = after


def _in_order(written: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    # The column Reason of kubectl shows the first condition that is True.
    return sorted(written.values(), key=lambda condition: condition["type"] not in _PHASES)
