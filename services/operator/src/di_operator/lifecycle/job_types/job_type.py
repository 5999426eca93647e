"""The protocol for everything that differs between types of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from di_api.phase import Phase
from di_api.spec import JobSpec, Task, Template
from di_operator.lifecycle.observed.placement import Placement
from di_operator.lifecycle.observed.plan import Plan
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.vocabulary.actions import Recipe
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.lifecycle.vocabulary.rules import Part


class JobType(Protocol):
    """The type of a job, chosen from its spec by `choose`; stateless.

    A spec that is passed in is of this type. So is the spec of a snapshot, which may be None only
    where the method mentions it.
    """

    def slots(
        self, job: str, spec: JobSpec, placement: Placement | None, aggregator: Template | None
    ) -> tuple[tuple[Task, ...], tuple[Slot, ...]]:
        """Return the groups of equal pods of a job of that name, and all replicas in order.

        `aggregator` is the template of the AggregatorConfig, None if it was not read.
        """
        ...

    def judge(self, snapshot: Snapshot, now: datetime, settings: Settings) -> Verdict | None:
        """Return the transition by failures, losses or completion; None if there is nothing to
        count.
        """
        ...

    def plan(self, snapshot: Snapshot, now: datetime, settings: Settings) -> Plan:
        """Return the next steps to the pods that the spec requests."""
        ...

    def samples(self, snapshot: Snapshot, settings: Settings) -> Iterable[Recipe]:
        """Return the recipe of one pod for each template, for dry runs before any pod is
        created.
        """
        ...

    def judge_end(self, snapshot: Snapshot, now: datetime) -> Verdict | None:
        """Return the end of a job of which some pods may still run; None if it has not ended."""
        ...

    def end_of_frozen(self, snapshot: Snapshot) -> Verdict | None:
        """Return the end of a running job with an unreadable spec; None if it has not ended."""
        ...

    def refused(self, snapshot: Snapshot) -> Part:
        """Return the role of a pod whose write was refused: the most severe that is possible."""
        ...

    def services(self, snapshot: Snapshot) -> Iterable[Recipe]:
        """Return the recipes for the Services of the job, existing or not."""
        ...

    def status(self, snapshot: Snapshot, phase: Phase) -> Mapping[str, Any]:
        """Return the status fields that only this type has, for a job in `phase`.

        Empty while the spec is unknown.
        """
        ...
