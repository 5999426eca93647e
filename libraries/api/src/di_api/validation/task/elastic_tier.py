"""Rules about elastic tiers: what they cannot be combined with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from di_api.field_error import FieldError, mapping
from di_api.validation.size import pods_per_replica
from di_api.validation.tasks import Tasks


def contended_tiers(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors for tiers of a job whose pods the allocator chooses, or releases
    together.
    """
    if spec.get("preemptible") is True:
        message = (
            "does not go with preemptible: the allocator itself chooses how many replicas there "
            "are, and takes them all to be alike"
        )
    elif mapping(spec.get("scheduling")).get("gang") is True:
        message = "does not go with scheduling.gang, whose pods start all together"
    else:
        return
    for path, task in tasks:
        if (tier := task.get("elastic")) is not None:
            yield FieldError(f"{path}.elastic", tier, message)


def wrong_tier(path: str, task: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors in a raw task's tier, with defaults."""
    tier, where = task.get("elastic"), f"{path}.elastic"
    if not isinstance(tier, Mapping):
        return
    least, most = task.get("minReplicas"), task.get("maxReplicas")
    if least is None:
        message = "needs minReplicas: the tier is what a task has beyond"
        yield FieldError(where, tier, message)
    elif isinstance(least, int) and isinstance(most, int) and least >= most:
        message = f"never has a replica, since minReplicas, {least}, is maxReplicas"
        yield FieldError(where, tier, message)
    group = task.get("processGroup")
    is_fixed = isinstance(group, Mapping) and group.get("elastic") is not True
    if is_fixed and pods_per_replica(task) == 1:
        message = (
            "does not go with a process group of fixed size, which lacks whoever is lost; make "
            "processGroup.elastic true"
        )
        yield FieldError(where, tier, message)
    given = mapping(mapping(tier.get("templatePatch")).get("spec")).get("priorityClassName")
    if given is not None and tier.get("priorityClassName") is not None:
        message = "elastic.priorityClassName says it already; leave one out"
        yield FieldError(f"{where}.templatePatch.spec.priorityClassName", given, message)
