"""Nodes that are asked for before there are pods: what does not go with that."""

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
"""Groups of equal pods in one ProvisioningRequest."""


def nodes_of_nobody(spec: Mapping[str, Any], tasks: Sequence[object]) -> Iterator[FieldError]:
    """Jobs whose pods are placed on nodes that are there, or come one by one."""
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
    """A job with a queue: Kueue asks for its nodes, if it is told to."""
    value = mapping(spec.get("scheduling")).get(FIELD)
    if value is not None and queue_of({"metadata": metadata}) is not None:
        message = (
            f"does not go with the label {LABEL_QUEUE}: there an admission check of Kueue asks for "
            "nodes (ProvisioningRequestConfig)"
        )
        yield FieldError(_PATH, value, message)
