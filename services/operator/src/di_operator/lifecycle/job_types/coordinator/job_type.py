"""The type of a job with a coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from typing_extensions import override

from di_api.phase import Phase
from di_api.spec import JobSpec, Task, Template
from di_operator.lifecycle.job_types.coordinator.judge import end_of_frozen, judge_coordinator
from di_operator.lifecycle.job_types.coordinator.plan import (
    plan_replicas,
    sample_pods,
    services_of,
)
from di_operator.lifecycle.job_types.coordinator.replica_status import replica_status
from di_operator.lifecycle.job_types.coordinator.replicas import slots_of
from di_operator.lifecycle.job_types.coordinator.requests import requests_of
from di_operator.lifecycle.job_types.job_type import JobType
from di_operator.lifecycle.observed.placement import Placement
from di_operator.lifecycle.observed.plan import Plan
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.vocabulary.actions import Recipe
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.lifecycle.vocabulary.rules import Part


class WithCoordinator(JobType):
    """A job whose first slot is the coordinator's; the others are the replicas that it requests."""

    @override
    def slots(
        self, job: str, spec: JobSpec, placement: Placement | None, aggregator: Template | None
    ) -> tuple[tuple[Task, ...], tuple[Slot, ...]]:
        return slots_of(job, spec, aggregator)

    @override
    def judge(self, snapshot: Snapshot, now: datetime, settings: Settings) -> Verdict | None:
        spec = snapshot.spec
        assert spec is not None, "there is nothing to judge by"
        return judge_coordinator(snapshot, now, lambda pod: requests_of(spec, pod))

    @override
    def plan(self, snapshot: Snapshot, now: datetime, settings: Settings) -> Plan:
        return plan_replicas(snapshot, now, settings)

    @override
    def samples(self, snapshot: Snapshot, settings: Settings) -> Iterable[Recipe]:
        return sample_pods(snapshot, settings)

    @override
    def judge_end(self, snapshot: Snapshot, now: datetime) -> Verdict | None:
        return None

    @override
    def end_of_frozen(self, snapshot: Snapshot) -> Verdict | None:
        return end_of_frozen(snapshot)

    @override
    def refused(self, snapshot: Snapshot) -> Part:
        has_coordinator = bool(snapshot.slots) and snapshot.slots[0] not in snapshot.missing
        return Part.REPLICA if has_coordinator else Part.COORDINATOR

    @override
    def services(self, snapshot: Snapshot) -> Iterable[Recipe]:
        return services_of(snapshot)

    @override
    def status(self, snapshot: Snapshot, phase: Phase) -> Mapping[str, Any]:
        if not snapshot.slots:
            return {}
        return {"replicaStatus": replica_status(snapshot, phase)}
