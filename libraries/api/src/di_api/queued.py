"""Jobs with a queue of Kueue, as admission sees them: created suspended, and bound to their queue.

So no pod starts before the job is admitted, also where the operator is away or of a version that
knows no queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import FieldError, mapping
from di_api.names import ANNOTATION_SUSPENDED_BY, LABEL_QUEUE, SUSPENDED_BY_QUEUE

QUEUE_PATH: Final = f"metadata.labels[{LABEL_QUEUE}]"


def queue_of(job: Mapping[str, Any]) -> str | None:
    """The queue that a job of any shape names, None if it has none."""
    queue = mapping(mapping(job.get("metadata")).get("labels")).get(LABEL_QUEUE)
    return queue if isinstance(queue, str) and queue else None


def is_suspended_by_queue(job: Mapping[str, Any]) -> bool:
    """Whether it is its queue that keeps a job suspended, and not a user."""
    annotations = mapping(mapping(job.get("metadata")).get("annotations"))
    is_marked = annotations.get(ANNOTATION_SUSPENDED_BY) == SUSPENDED_BY_QUEUE
    return is_marked and mapping(job.get("spec")).get("suspend") is True


def waits_in_queue(job: Mapping[str, Any]) -> bool:
    """Whether a new job is to be suspended for its queue.

    One that its user has suspended already waits in no queue before it is resumed.
    """
    spec = job.get("spec")
    has_queue = queue_of(job) is not None and isinstance(spec, Mapping)
    return has_queue and mapping(spec).get("suspend") is not True


SUSPENSION_NOTE: Final = {ANNOTATION_SUSPENDED_BY: SUSPENDED_BY_QUEUE}
"""The annotation of a job that its queue suspends."""


def changed_queue(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldError]:
    """The error of another queue for a job that is not suspended: its quota is of the old one."""
    before, after = queue_of(old), queue_of(new)
    if before == after or mapping(old.get("spec")).get("suspend") is True:
        return
    yield FieldError(
        QUEUE_PATH,
        after or "",
        "may not change while the job is admitted or runs; suspend it first",
    )
