"""A policy: everything that one topic adds to a decision, each in its stage.

`decide` and `build_status` ask the policies of `policy_order` in turn and know none of them.
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
"""Seconds between two status writes that report nothing but new counts of pods.

A write for every pod that becomes ready would cost the API server more than the pods do; a change
of phase carries the counts anyhow.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Fields that have moved, which alone are worth a write only after a while."""

    fields: Mapping[str, Any]
    """As they are written with the next write, whatever is the reason for that."""
    delay: float
    """Seconds from the last write to one for these fields alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the status says about one topic."""

    conditions: tuple[Aside, ...] = ()
    """Conditions beside those of phases. One of a `Problem` is announced by a Warning event."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All fields of the status that the topic owns; one that is left out is removed."""
    is_urgent: bool = False
    """Whether a difference in the fields is more than new counts, and is written at once."""
    drift: Drift | None = None
    """The fields are as they are written now, and these are new; None: nothing has moved."""


NOTHING: Final = Report()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What puts right objects that were edited by hand, and the events for it."""

    actions: tuple[Action, ...] = ()
    events: tuple[JobEvent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The hooks of one topic, in the order in which a decision comes to them.

    All are pure, and None where the topic has nothing to add.
    """

    upkeep: Callable[[Snapshot, datetime], tuple[Action, ...]] | None = None
    """Actions that come last; asked for jobs that are deleted or finished, too."""
    judge: Callable[[Snapshot, datetime], Verdict | None] | None = None
    """The transition of the job; None: the next policy is asked. Its spec can be read."""
    prepare: Callable[[Snapshot, Plan, datetime, Settings], Plan] | None = None
    """The plan with what has to stand before its pods are made."""
    amend: Callable[[Snapshot, Verdict, datetime], Verdict] | None = None
    """The transition with what else is to be written or announced."""
    report: Callable[[Snapshot, Verdict, datetime], Report] | None = None
    """The topic's part of the status."""
    repair: Callable[[Snapshot, Settings], Repair] | None = None
    """Asked when there is nothing else to do or to write."""
    due: Callable[[Snapshot, datetime], float | None] | None = None
    """Seconds until the topic may decide something else; None: no clock runs."""
