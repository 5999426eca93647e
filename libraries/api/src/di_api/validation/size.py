"""Rule about the maximum number of pods of a job.

It limits what a job can reach, not its present size: each task counts with the larger of `replicas`
and `maxReplicas`, times the pods of each replica, plus its standby pods. So an admitted job can be
scaled within its own bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import FieldError, items, mapping
from di_api.spec.bounds import MAX_INT32, MAX_PODS, MAX_PODS_PER_REPLICA, MAX_STANDBY

_LEAST: Final = 1
"""Number of replicas that count for a task without a valid number."""


def reach(task: Mapping[str, Any]) -> int:
    """Return the maximum number of pods of a raw task, places of vacant indexes included, because
    its node list has them. An invalid count is ignored.
    """
    vacant = len(items(task.get("vacant")))
    counts = ((task.get("replicas"), vacant), (task.get("maxReplicas"), 0))
    possible = [
        count + more for count, more in counts if isinstance(count, int) and 0 < count <= MAX_INT32
    ]
    return max(possible, default=_LEAST) * pods_per_replica(task) + standby_pods(task)


def pods_per_replica(task: Mapping[str, Any]) -> int:
    """Return the pods of each replica of a raw task; 1 if the value is invalid."""
    size = task.get("podsPerReplica")
    return size if isinstance(size, int) and 1 <= size <= MAX_PODS_PER_REPLICA else 1


def standby_pods(task: Mapping[str, Any]) -> int:
    """Return the standby pods of a raw task; 0 if the value is invalid."""
    number = task.get("standby")
    if not isinstance(number, int) or isinstance(number, bool):
        return 0
    return number if 0 <= number <= MAX_STANDBY else 0


def total_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error if the tasks of a raw spec can reach too many pods together."""
    tasks = items(spec.get("tasks"))
    total = sum(reach(mapping(task)) for task in tasks)
    if total > MAX_PODS:
        yield FieldError(
            "spec.tasks",
            tasks,
            f"may reach {total} pods, of each task the larger of replicas and maxReplicas "
            f"counted, and a job may have {MAX_PODS}; lower some, or make it several jobs",
            passes=("pods", total),
        )
