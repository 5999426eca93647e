"""The type of a job with tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from typing_extensions import override

from di_api.indexes.replicas import indexes
from di_api.names import LABEL_TASK_NAME, pod_name
from di_api.phase import Phase
from di_api.spec import JobSpec, Task, Template
from di_kube.resources import PODS
from di_operator.builders.task_service import service_labels
from di_operator.lifecycle.failure.restart_delay import note_losses
from di_operator.lifecycle.job_types.job_type import JobType
from di_operator.lifecycle.job_types.tasks.allocation import judge_allocation
from di_operator.lifecycle.job_types.tasks.completed_tasks import (
    judge_failing_completion,
    judge_repeating_completion,
)
from di_operator.lifecycle.job_types.tasks.completion import end_of_frozen, judge_completion
from di_operator.lifecycle.job_types.tasks.dry_run import sample_pods
from di_operator.lifecycle.job_types.tasks.plan import plan_tasks
from di_operator.lifecycle.job_types.tasks.requests import requests_of
from di_operator.lifecycle.job_types.tasks.reschedule import judge_losses
from di_operator.lifecycle.job_types.tasks.restart import judge_failures
from di_operator.lifecycle.job_types.tasks.services import wanted_services
from di_operator.lifecycle.job_types.tasks.standbys import judge_stand_ins, with_stand_ins
from di_operator.lifecycle.job_types.tasks.success import judge_success
from di_operator.lifecycle.observed.placement import Placement
from di_operator.lifecycle.observed.plan import Plan
from di_operator.lifecycle.observed.snapshot import Slot, Snapshot
from di_operator.lifecycle.observed.verdict import Verdict
from di_operator.lifecycle.policies.pending_timeout import judge_pending
from di_operator.lifecycle.vocabulary.actions import DryRun, Recipe
from di_operator.lifecycle.vocabulary.decision import Settings
from di_operator.lifecycle.vocabulary.rules import Part


class WithTasks(JobType):
    """A job of which every replica counts, and whose pods know each other's addresses."""

    @override
    def slots(
        self, job: str, spec: JobSpec, placement: Placement | None, aggregator: Template | None
    ) -> tuple[tuple[Task, ...], tuple[Slot, ...]]:
        return spec.tasks, tuple(_slots(job, spec.tasks, placement))

    @override
    def judge(self, snapshot: Snapshot, now: datetime, settings: Settings) -> Verdict | None:
        if verdict := judge_allocation(snapshot, now):
            if snapshot.grant is not None and snapshot.grant.needs_dry_run:
                asked = (
                    DryRun(resource=PODS, recipe=recipe, job=snapshot.job)
                    for recipe in self.samples(snapshot, settings)
                )
                verdict = replace(verdict, actions=(*verdict.actions, *asked))
            # The pending timeout still runs while the allocator withdraws the job's nodes.
            return judge_pending(snapshot, now) or verdict
        job, spec = snapshot.name, snapshot.spec
        assert spec is not None, "there is nothing to judge by"
        follow, change = judge_losses(snapshot, now)
        failure = judge_failures(
            snapshot, now, lambda pod: requests_of(job, spec, pod), following=follow.pods
        )
        if failure is not None and change is not None and failure.phase is Phase.RESTARTING:
            # Both were observed together: both are counted, and the failure is the reported
            # reason.
            failure = replace(
                failure,
                reschedules=change.reschedules,
                counted=(*failure.counted, *change.counted),
                events=(*failure.events, *change.events),
                from_absence=change.from_absence,
                restarted=failure.restarted | change.restarted,
                regrouped=failure.regrouped | change.regrouped,
                lost=change.lost,
            )
        if (verdict := failure or change) is not None:
            return with_stand_ins(snapshot, note_losses(snapshot, verdict, now), now)
        verdict = (
            (judge_repeating_completion(snapshot) if snapshot.done else None)
            or judge_completion(snapshot)
            or judge_stand_ins(snapshot, now)
        )
        if verdict is None and follow.left is not None and snapshot.status.phase is not None:
            # Nothing else is done in the meantime.
            verdict = Verdict(phase=snapshot.status.phase, requeue_after=follow.left)
        return verdict

    @override
    def plan(self, snapshot: Snapshot, now: datetime, settings: Settings) -> Plan:
        return plan_tasks(snapshot, now, settings)

    @override
    def samples(self, snapshot: Snapshot, settings: Settings) -> Iterable[Recipe]:
        # A job that waits for nodes has no slots.
        return sample_pods(snapshot, _slots(snapshot.name, snapshot.tasks, None), settings)

    @override
    def judge_end(self, snapshot: Snapshot, now: datetime) -> Verdict | None:
        verdict = judge_success(snapshot, now)
        return verdict or (judge_failing_completion(snapshot) if snapshot.done else None)

    @override
    def end_of_frozen(self, snapshot: Snapshot) -> Verdict | None:
        return end_of_frozen(snapshot)

    @override
    def refused(self, snapshot: Snapshot) -> Part:
        if not snapshot.missing:
            # With standby pods, the refused pod may have been one of them.
            return Part.ELASTIC if any(task.standby for task in snapshot.tasks) else Part.TASK
        of_tier = not any(slot.is_core for slot in snapshot.missing)
        return Part.ELASTIC if of_tier else Part.TASK

    @override
    def services(self, snapshot: Snapshot) -> Iterable[Recipe]:
        return (recipe for _, recipe in wanted_services(snapshot))

    @override
    def status(self, snapshot: Snapshot, phase: Phase) -> Mapping[str, Any]:
        return {}


def _slots(job: str, tasks: Iterable[Task], placement: Placement | None) -> Iterator[Slot]:
    for task in tasks:
        size = task.pods_per_replica
        nodes = [""] * task.pods if placement is None else placement.get(task.name, ())
        # An edited placement may have incomplete replicas, which are left out.
        replicas = indexes(len(nodes) // size, task.vacant)
        places = (replica * size + place for replica in replicas for place in range(size))
        for index, node in zip(places, nodes, strict=False):
            yield Slot(
                name=pod_name(job, task.name, index, size),
                task=task,
                part=Part.TASK,
                index=index,
                node=node,
                labels={LABEL_TASK_NAME: task.name, **service_labels(task, index)},
            )
