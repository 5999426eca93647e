"""Admission of jobs with a queue of Kueue: they are created suspended, and cannot change their
queue.

So no pod starts before Kueue admits the job, even if the operator is unreachable or does not
support queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import FieldError, mapping
from di_api.names import ANNOTATION_SUSPENDED_BY, LABEL_QUEUE, SUSPENDED_BY_QUEUE

QUEUE_PATH: Final = f"metadata.labels[{LABEL_QUEUE}]"


def queue_of(job: Mapping[str, Any]) -> str | None:
    """Return the queue that a job of any shape names, None if it has none."""
    queue = mapping(mapping(job.get("metadata")).get("labels")).get(LABEL_QUEUE)
    return queue if isinstance(queue, str) and queue else None


def is_suspended_by_queue(job: Mapping[str, Any]) -> bool:
    """Return whether the queue keeps a job suspended, and not a user."""
    annotations = mapping(mapping(job.get("metadata")).get("annotations"))
    is_marked = annotations.get(ANNOTATION_SUSPENDED_BY) == SUSPENDED_BY_QUEUE
    return is_marked and mapping(job.get("spec")).get("suspend") is True


def waits_in_queue(job: Mapping[str, Any]) -> bool:
    """Return whether a new job has to be suspended for its queue.

    A job that its user suspended enters the queue only when it is resumed.
    """
    spec = job.get("spec")
    has_queue = queue_of(job) is not None and isinstance(spec, Mapping)
    return has_queue and mapping(spec).get("suspend") is not True


SUSPENSION_NOTE: Final = {ANNOTATION_SUSPENDED_BY: SUSPENDED_BY_QUEUE}
"""Annotation of a job that its queue suspends."""


def changed_queue(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the error for a changed queue of a job that is not suspended: its quota belongs to the
    old queue.
    """
    before, after = queue_of(old), queue_of(new)
    if before == after or mapping(old.get("spec")).get("suspend") is True:
        return
    yield FieldError(
        QUEUE_PATH,
        after or "",
        "may not change while the job is admitted or runs; suspend it first",
    )
