"""Rules about nodes that are requested before pods: what this cannot be combined with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from di_api.field_error import FieldError, mapping
from di_api.names import LABEL_QUEUE
from di_api.queued import queue_of
from di_api.validation.scheduling.placed_together import placed_by_others

FIELD: Final = "provisioningClassName"
_PATH: Final = f"spec.scheduling.{FIELD}"
MAX_POD_SETS: Final = 32
"""Maximum number of groups of equal pods in one ProvisioningRequest."""


def nodes_of_nobody(spec: Mapping[str, Any], tasks: Sequence[object]) -> Iterator[FieldError]:
    """Yield the errors for jobs whose pods use only existing nodes, or are created one by one."""
    value = mapping(spec.get("scheduling")).get(FIELD)
    if value is None:
        return
    why = "the allocator waits for room on nodes that are there; choose one of the two"
    yield from placed_by_others(FIELD, spec, with_gang=why)
    if len(tasks) > MAX_POD_SETS:
        message = f"a ProvisioningRequest has {MAX_POD_SETS} groups of pods at most"
        yield FieldError(_PATH, value, message)


def nodes_asked_for_twice(
    metadata: Mapping[str, Any], spec: Mapping[str, Any]
) -> Iterator[FieldError]:
    """Yield the error for a job with a queue: Kueue itself can request its nodes."""
    value = mapping(spec.get("scheduling")).get(FIELD)
    if value is not None and queue_of({"metadata": metadata}) is not None:
        message = (
            f"does not go with the label {LABEL_QUEUE}: there an admission check of Kueue asks for "
            "nodes (ProvisioningRequestConfig)"
        )
        yield FieldError(_PATH, value, message)
