"""Rules about tasks with a DIJobTask for autoscalers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError
from di_api.validation.tasks import Tasks


def contended_replicas(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for scalable tasks of a job whose replicas the allocator chooses: the two
    would conflict.
    """
    if spec.get("preemptible") is not True:
        return
    for path, task in tasks:
        if task.get("scalable") is True:
            message = (
                "does not go with preemptible: the allocator chooses how many replicas there are, "
                "and an autoscaler would choose others"
            )
            yield FieldError(f"{path}.scalable", True, message)


def unbounded_scalable(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a scalable task without an upper bound, which an autoscaler needs."""
    if task.get("scalable") is True and task.get("maxReplicas") is None:
        message = "needs maxReplicas: what is written beyond the bounds is refused"
        yield FieldError(f"{path}.scalable", True, message)
