"""The transition that a policy decides on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from di_api.phase import Phase
from di_api.stand_ins import StandIns
from di_operator.lifecycle.observed.ledger import Ledger
from di_operator.lifecycle.observed.pods import Pod
from di_operator.lifecycle.observed.status import ReplicaKey
from di_operator.lifecycle.vocabulary.actions import Action
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.decision import JobEvent
from di_operator.lifecycle.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The next `status.groups`, and the events that follow its write."""

    status: Mapping[str, Any]
    events: tuple[JobEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The next phase of a job, the reason for it, and the actions.

    ``message`` None keeps reason and message of the present phase. ``counted`` are the pods whose
    end is included in ``restarts`` and ``reschedules`` (which are added to the present counts).
    ``from_absence`` marks that some of them were lost without a trace. ``force_write``
    writes status and event even if they repeat the previous ones. ``asides`` are other conditions
    that turn True with it.

    ``restarted`` are tasks (for a coordinated job: roles) that restart as a whole: all of their
    pods are outdated once this is written. ``regrouped`` are replicas of several pods that lost
    one; all of their pods are outdated too. ``lost`` are lost replicas of elastic tiers and those
    whose pods vanished. ``groups`` None keeps the process groups. ``stand_ins`` are the promoted
    standby pods from now on, None if unchanged. ``ledger`` has the failure records from now on,
    None if nothing was counted.
    """

    phase: Phase
    reason: Reason | None = None
    message: str | None = None
    restarts: int = 0
    reschedules: int = 0
    counted: tuple[Pod, ...] = ()
    actions: tuple[Action, ...] = ()
    events: tuple[JobEvent, ...] = ()
    requeue_after: float | None = None
    force_write: bool = False
    from_absence: bool = False
    asides: tuple[Aside, ...] = ()
    restarted: frozenset[str] = frozenset()
    regrouped: frozenset[ReplicaKey] = frozenset()
    lost: frozenset[ReplicaKey] = frozenset()
    groups: Groups | None = None
    stand_ins: StandIns | None = None
    ledger: Ledger | None = None


def earliest(*delays: float | None) -> float | None:
    """Return the shortest of the delays, None without any."""
    return min((delay for delay in delays if delay is not None), default=None)


def restarts_used(used: int, limit: int) -> str:
    """Return the message for an exhausted restart limit."""
    return f"{count_of(used, 'restart')} of {limit} used" if limit else "no restart allowed"


def replaced(tasks: Iterable[str]) -> str:
    """Return the message for tasks that are restarted as a whole."""
    names = sorted(tasks)
    return f"all pods of {'task' if len(names) == 1 else 'tasks'} {', '.join(names)} are replaced"


def count_of(number: int, noun: str) -> str:
    """Return a count with its noun: ``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
