"""The step by which `ScaleDown` of an idlePolicy removes one replica from a learner task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from di_api.indexes.replicas import left_vacant
from di_api.spec import Task, TaskType
from di_operator.lifecycle.observed.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDown:
    """A learner task that gets one replica less."""

    task: str
    before: int
    replicas: int
    patch: Mapping[str, Any]
    """A merge patch of the job, with all tasks: it is valid for this version of the job only."""


def scale_down(snapshot: Snapshot) -> ScaleDown | None:
    """Return the step; None if no learner task can lose a replica.

    Learners that wait are too many for what the collectors produce, so the learner task with the
    most replicas above its `minReplicas` loses one. Left out are tasks without `minReplicas`, tasks
    whose replicas an autoscaler or the allocator chooses, and process groups that restart as a
    whole when their size changes.
    """
    spec = snapshot.spec
    if spec is None or spec.preemptible:
        return None
    found = [
        (each.replicas - max(each.min_replicas or 1, 1), -place)
        for place, each in enumerate(spec.tasks)
        if _may_shrink(snapshot, each)
    ]
    spare, place = max(found, default=(0, 0))
    if spare <= 0:
        return None
    task = spec.tasks[-place]
    replicas = task.replicas - 1
    tasks = [*snapshot.job["spec"]["tasks"]]
    left = {key: each for key, each in tasks[-place].items() if key != "vacant"}
    vacant = left_vacant(replicas, task.vacant)
    tasks[-place] = {**left, "replicas": replicas, **({"vacant": [*vacant]} if vacant else {})}
    return ScaleDown(
        task=task.name, before=task.replicas, replicas=replicas, patch={"spec": {"tasks": tasks}}
    )


def _may_shrink(snapshot: Snapshot, task: Task) -> bool:
    is_chosen = task.type is TaskType.LEARNER and task.min_replicas is not None
    return is_chosen and not task.scalable and not snapshot.is_fixed_group(task, is_resized=True)
