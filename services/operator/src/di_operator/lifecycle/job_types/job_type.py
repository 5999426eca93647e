"""What differs between types of jobs; everything else is the same for all jobs."""

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
    """The type of a job, chosen from its spec by `choose`; without state of its own.

    A spec, where one is given, is of that type; so are snapshots, whose spec may be unknown only
    where it says so.
    """

    def slots(
        self, job: str, spec: JobSpec, placement: Placement | None, aggregator: Template | None
    ) -> tuple[tuple[Task, ...], tuple[Slot, ...]]:
        """The groups of equal pods of a job of that name, and all replicas in order.

        `aggregator` is the template of the AggregatorConfig, None if it was not read.
        """
        ...

    def judge(self, snapshot: Snapshot, now: datetime, settings: Settings) -> Verdict | None:
        """Count failures and losses and see the end; None: there is nothing to count."""
        ...

    def plan(self, snapshot: Snapshot, now: datetime, settings: Settings) -> Plan:
        """The next steps to the pods that the spec asks for."""
        ...

    def samples(self, snapshot: Snapshot, settings: Settings) -> Iterable[Recipe]:
        """What one pod of each template is built from, for dry runs before any pod is made."""
        ...

    def judge_end(self, snapshot: Snapshot, now: datetime) -> Verdict | None:
        """The end of a job some of whose pods run on; None: it is not over."""
        ...

    def end_of_frozen(self, snapshot: Snapshot) -> Verdict | None:
        """The end of a job that runs and whose spec cannot be read; None: it has not ended."""
        ...

    def refused(self, snapshot: Snapshot) -> Part:
        """What the pod is to the job that a refused write was for: the gravest there can be."""
        ...

    def services(self, snapshot: Snapshot) -> Iterable[Recipe]:
        """What the Services of the job are built from, whether or not they are there."""
        ...

    def status(self, snapshot: Snapshot, phase: Phase) -> Mapping[str, Any]:
        """Fields of the status that only this type has, once the job is in `phase`.

        None while the spec is not known.
        """
        ...
