"""Rules about a task's process group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, InvalidSpec, mapping
from di_api.spec.failure import FailurePolicy
from di_api.spec.process_group import LAST_CALL_SECONDS, ProcessGroup
from di_api.spec.reading import read
from di_api.status.groups import is_fixed_group
from di_api.validation.size import pods_per_replica
from di_api.validation.task.framework import wrong_framework


def wrong_process_group(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors in a raw task's group, with defaults."""
    group, where = mapping(task.get("processGroup")), f"{path}.processGroup"
    yield from wrong_framework(path, task)
    if group.get("elastic") is True and pods_per_replica(task) > 1:
        message = "must be false with podsPerReplica above 1, each replica is a group of its own"
        yield FieldError(f"{where}.elastic", True, message)
    elif group.get("elastic") is True:
        missing = [name for name in ("minReplicas", "maxReplicas") if task.get(name) is None]
        if missing:
            message = f"an elastic group needs minReplicas and maxReplicas; {missing[0]} is missing"
            yield FieldError(f"{where}.elastic", True, message)
    last_call, deadline = (
        _whole(group.get(name)) for name in ("lastCallSeconds", "deadlineSeconds")
    )
    if last_call is not None and deadline is not None and last_call > deadline:
        unset = f"; it is {LAST_CALL_SECONDS} unless set" if last_call == LAST_CALL_SECONDS else ""
        message = f"must be at most deadlineSeconds, {deadline}{unset}"
        yield FieldError(f"{where}.lastCallSeconds", last_call, message)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None


def scaling_warning(spec: Mapping[str, Any], task: Mapping[str, Any]) -> str | None:
    """Return what another number of replicas of a task costs its process group.

    None if the members come and go, or there is no group. Takes a raw spec of any shape.
    """
    raw, name = task.get("processGroup"), str(task.get("name") or task.get("type"))
    if raw is None:
        return None
    try:
        group = read(ProcessGroup, mapping(raw), "processGroup")
        policy = read(FailurePolicy, mapping(spec.get("failurePolicy")), "failurePolicy")
    except InvalidSpec:
        # The operator cannot read it either, and leaves the pods as they are.
        return None
    size = pods_per_replica(task)
    if not is_fixed_group(name, group=group, pods_per_replica=size, policy=policy, is_resized=True):
        return None
    return (
        f"the process group of task {name} has a fixed size: scaling replaces all its pods, which "
        "go on from their last checkpoint"
    )
