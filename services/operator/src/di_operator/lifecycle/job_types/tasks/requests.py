"""The resources that the pods of a job with tasks request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.names import index_of_pod
from di_api.spec import JobSpec, tasks_by_pod


def requests_of(job: str, spec: JobSpec, pod: str) -> Mapping[str, Any]:
    """Return the spec of the pod in its task's template; empty if no task has one of that name."""
    name = tasks_by_pod(job, spec.tasks)(pod)
    task = next((task for task in spec.tasks if task.name == name), None)
    if task is None:
        return {}
    template = task.template_of(index_of_pod(pod, task.pods_per_replica))
    return template.get("spec") or {}
