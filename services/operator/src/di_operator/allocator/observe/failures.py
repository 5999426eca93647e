"""Consequences of failed replicas for the allocator: memory, and nodes to avoid.

Nodes are assigned to tasks, so what applies to one replica is applied to all of its task.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from di_api.spec import JobSpec, Task
from di_operator.allocator.model.job import JobInfo
from di_operator.builders.fitting import grown
from di_operator.lifecycle.observed.ledger import Avoided, Ledger


def with_growth(spec: JobSpec, ledger: Ledger) -> JobSpec:
    """Return the spec with the most memory that a replica of each task has grown to."""
    if not ledger.replicas:
        return spec
    return replace(spec, tasks=tuple(_with_growth(task, ledger) for task in spec.tasks))


def without_avoided(job: JobInfo, avoided: Iterable[tuple[str, Avoided]], now: datetime) -> JobInfo:
    """Return a job whose tasks avoid the nodes where a replica failed and is not to return."""
    barred = {(task, each.node) for task, each in avoided if now < each.until}
    if not barred:
        return job
    tasks = [
        replace(
            task,
            constraints=replace(
                task.constraints,
                barred=task.constraints.barred
                | {node for name, node in barred if name == task.name},
            ),
        )
        for task in job.tasks
    ]
    return replace(job, tasks=tuple(tasks))


def _with_growth(task: Task, ledger: Ledger) -> Task:
    if not (memory := ledger.grown(task.name)):
        return task
    pod_spec = grown(task.template.get("spec") or {}, memory)
    return replace(task, template={**task.template, "spec": pod_spec})
