"""A policy: everything that one topic adds to a decision, by stage.

`decide` and `build_status` call the policies of `policy_order` in turn and depend on none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from di_operator.lifecycle.observed.plan import Plan
from di_operator.lifecycle.observed.snapshot import Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.vocabulary.actions import Action
from di_operator.lifecycle.vocabulary.conditions import Aside
from di_operator.lifecycle.vocabulary.decision import JobEvent, Settings

COUNTS_PERIOD: Final = 10.0
"""Seconds between two status writes that only change counts of pods.

A write for every pod that becomes ready would cost the API server more than the pods do. A change
of phase writes the counts too.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Fields that have changed, but not enough for an immediate write of their own."""

    fields: Mapping[str, Any]
    """The new fields; the next write includes them, whatever causes it."""
    delay: float
    """Seconds from the last write to one for these fields alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The part of the status that belongs to one topic."""

    conditions: tuple[Aside, ...] = ()
    """Conditions other than those of phases. A Warning event announces one of a `Problem`."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All fields of the status that the topic owns; a field that is left out is removed."""
    is_urgent: bool = False
    """Whether a difference in the fields is more than new counts, and is written at once."""
    drift: Drift | None = None
    """New values of fields that may be written later; None if there are none."""


NOTHING: Final = Report()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """The patches that restore objects which were edited by hand, and the events for them."""

    actions: tuple[Action, ...] = ()
    events: tuple[JobEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The hooks of one topic, in the order in which a decision calls them.

    All are pure. A hook is None if the topic has nothing to add at that stage.
    """

    late_actions: Callable[[Snapshot, datetime], tuple[Action, ...]] | None = None
    """Actions that come last; also called for jobs that are deleted or finished."""
    judge: Callable[[Snapshot, datetime], Verdict | None] | None = None
    """The transition of the job; None passes it on to the next policy. Only called with a readable
    spec.
    """
    prepare: Callable[[Snapshot, Plan, datetime, Settings], Plan] | None = None
    """The plan with what must exist before the job's pods are created."""
    amend: Callable[[Snapshot, Verdict, datetime], Verdict] | None = None
    """The transition with further writes or events."""
    report: Callable[[Snapshot, Verdict, datetime], Report] | None = None
    """The topic's part of the status."""
    repair: Callable[[Snapshot, Settings], Repair] | None = None
    """Called when there is nothing else to do or to write."""
    due: Callable[[Snapshot, datetime], float | None] | None = None
    """Seconds until time alone can change the topic's result; None if it cannot."""
