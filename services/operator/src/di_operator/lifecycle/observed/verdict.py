"""What a policy says about a job."""

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
    """`status.groups` from now on, and what is to be told once it is written."""

    status: Mapping[str, Any]
    events: tuple[JobEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The phase a job is in from now on, why, and what is to be done.

    ``message`` None keeps reason and message of the present phase. ``counted`` are the pods
    whose end ``restarts`` and ``reschedules`` (added to the present counts) account for.
    ``from_absence`` says that some were lost without a trace. ``insist`` writes status and event
    also when they say the same as before: it happened again. ``asides`` are conditions beside
    those of phases that turn True with it. ``restarted`` are tasks (of a coordinated
    job: roles) that are restarted as a whole: all pods they have are outdated once it is written.
    ``regrouped`` are replicas of several pods of which one was lost: so are all the pods they have.
    ``lost`` are replicas that were lost: of elastic tiers, and those whose pods vanished.
    ``groups`` None leaves the process groups as they are.
    ``stand_ins`` are the pods that serve in the place of others from now on, None if they are the
    same.
    ``ledger`` is what is remembered of failures from now on, None if nothing is counted.
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
    insist: bool = False
    from_absence: bool = False
    asides: tuple[Aside, ...] = ()
    restarted: frozenset[str] = frozenset()
    regrouped: frozenset[ReplicaKey] = frozenset()
    lost: frozenset[ReplicaKey] = frozenset()
    groups: Groups | None = None
    stand_ins: StandIns | None = None
    ledger: Ledger | None = None


def earliest(*delays: float | None) -> float | None:
    """Return the shortest of the delays, None if there is none."""
    return min((delay for delay in delays if delay is not None), default=None)


def restarts_used(used: int, limit: int) -> str:
    """Say that a limit of restarts is spent."""
    return f"{count_of(used, 'restart')} of {limit} used" if limit else "no restart allowed"


def replaced(tasks: Iterable[str]) -> str:
    """Say that tasks are restarted as a whole."""
    names = sorted(tasks)
    return f"all pods of {'task' if len(names) == 1 else 'tasks'} {', '.join(names)} are replaced"


def count_of(number: int, noun: str) -> str:
    """Write ``1 pod``, ``2 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
