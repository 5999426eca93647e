"""How many pods a job may have.

Not what it has counts but what it may reach, of each task the larger of `replicas` and
`maxReplicas`: a job that was admitted can be scaled within its own bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.defaults import DEFAULT_REPLICAS
from di_api.field_error import FieldError, items, mapping

MAX_PODS: Final = 4096
"""Most pods of a job. The CRD says the same."""
_MAX_COUNT: Final = 2**31 - 1
"""The CRD's type of a replica count is int32."""


def reach(task: Mapping[str, Any]) -> int:
    """Most replicas a raw task may get. A count that the schema refuses is left out."""
    counts = (task.get("replicas"), task.get("maxReplicas"))
    possible = [count for count in counts if isinstance(count, int) and 0 < count <= _MAX_COUNT]
    return max(possible, default=DEFAULT_REPLICAS)


def total_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Whether the tasks of a raw spec may reach too many pods together."""
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
