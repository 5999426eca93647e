"""Rules about pods that a scheduler places together: what this cannot be combined with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, mapping


def placed_by_others(
    field: str, spec: Mapping[str, Any], *, with_gang: str
) -> Iterator[FieldError]:
    """Yield the errors for jobs whose pods our allocator places, or that do not start together.

    Args:
        field: the field of `scheduling` that requests this of a scheduler.
        with_gang: why it cannot be combined with `scheduling.gang`.
    """
    scheduling = mapping(spec.get("scheduling"))
    path, value = f"spec.scheduling.{field}", scheduling.get(field)
    if spec.get("preemptible") is True:
        message = "does not go with preemptible: the allocator chooses the node of each pod"
        yield FieldError(path, value, message)
    if scheduling.get("gang") is True:
        yield FieldError(path, value, f"does not go with scheduling.gang: {with_gang}")
    if spec.get("coordinated") is not None:
        yield FieldError(path, value, "the pods of a coordinator come one by one")
