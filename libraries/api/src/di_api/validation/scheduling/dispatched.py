"""Rules about jobs that MultiKueue runs in another cluster: they need a queue, and cannot change
what that cluster got.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.difference import first_difference
from di_api.field_error import FieldError, items, mapping
from di_api.names import DISPATCHER, LABEL_QUEUE
from di_api.ownership import dispatched_part, is_dispatched
from di_api.queued import is_suspended_by_queue, queue_of
from di_api.validation.fixed_fields import located


def dispatched_without_queue(
    metadata: Mapping[str, Any], spec: Mapping[str, Any]
) -> Iterator[FieldError]:
    """Yield the error for a job for another cluster without a queue that sends it there."""
    job = {"metadata": metadata, "spec": spec}
    if is_dispatched(job) and queue_of(job) is None:
        message = f"{DISPATCHER} runs jobs with the label {LABEL_QUEUE}, and this one has none"
        yield FieldError("spec.managedBy", DISPATCHER, message)


def changed_while_dispatched(
    old: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[FieldError]:
    """Yield the error for a change that does not reach the cluster that runs the job.

    `before` and `after` are the existing and the new spec of `old`.
    """
    if not is_dispatched(old) or _has_no_cluster(old):
        return
    changed = first_difference(dispatched_part(before), dispatched_part(after))
    if changed is not None:
        path, value = located("spec", changed, after)
        message = (
            "may not change while another cluster runs the job, which is not told of it "
            "(MultiKueue); suspend it first"
        )
        yield FieldError(path, value, message)


def _has_no_cluster(job: Mapping[str, Any]) -> bool:
    status = mapping(job.get("status"))
    conditions = map(mapping, items(status.get("conditions")))
    waits = any(
        each.get("type") == "Queued" and each.get("status") == "True" for each in conditions
    )
    is_suspended = mapping(job.get("spec")).get("suspend") is True
    by_user = is_suspended and not is_suspended_by_queue(job)
    return waits or by_user or not status.get("phase")
