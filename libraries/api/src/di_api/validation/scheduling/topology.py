"""Rules about topology constraints: their content, and what they cannot be combined with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from di_api.field_error import ABSENT, FieldError, items, mapping
from di_api.spec.topology import Colocate
from di_api.validation.scheduling.placed_together import placed_by_others
from di_api.validation.size import pods_per_replica
from di_api.validation.tasks import Tasks, task_names, wrong_names

_FIELD: Final = "spec.scheduling.topology"
_MODES: Final = ("required", "preferred")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_PREFIX: Final = 253


def topology_of_nobody(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors for jobs whose pods another component places, or that do not start
    together.
    """
    if mapping(spec.get("scheduling")).get("topology"):
        yield from placed_by_others(
            "topology",
            spec,
            with_gang="the allocator finds room for each pod by itself; gangScheduler goes with it",
        )


def wrong_topology(spec: Mapping[str, Any], tasks: Tasks) -> Iterator[FieldError]:
    """Yield the errors in each constraint, and for tasks with two constraints of the same kind."""
    sizes = {str(task.get("name")): pods_per_replica(task) for _, task in tasks}
    taken: dict[tuple[str, bool], str] = {}
    for index, each in enumerate(items(mapping(spec.get("scheduling")).get("topology"))):
        path, found = f"{_FIELD}[{index}]", mapping(each)
        yield from _modes(path, found)
        names = found.get("tasks")
        if names == []:
            yield FieldError(f"{path}.tasks", [], "must name a task")
        if tasks:
            yield from wrong_names(f"{path}.tasks", names, task_names(tasks))
        of_replicas = found.get("colocate") == Colocate.REPLICA
        for place, name in enumerate(items(names)):
            where = f"{path}.tasks[{place}]"
            if not isinstance(name, str):
                continue
            if of_replicas and sizes.get(name) == 1:
                yield FieldError(where, name, "colocate Replica is for podsPerReplica above 1")
            first = taken.setdefault((name, of_replicas), path)
            if first != path:
                kind = "its replicas" if of_replicas else "all its pods"
                yield FieldError(where, name, f"{first} says already where {kind} are")


def _modes(path: str, found: Mapping[str, Any]) -> Iterator[FieldError]:
    given = [mode for mode in _MODES if found.get(mode) is not None]
    if not given:
        yield FieldError(f"{path}.required", ABSENT, "is required, unless preferred is given")
    if len(given) > 1:
        yield FieldError(
            f"{path}.preferred",
            found["preferred"],
            "exactly one of required and preferred is given",
        )
    for mode in given:
        key = found[mode]
        if isinstance(key, str) and not _is_key(key):
            message = "must be the key of a node's label, such as topology.kubernetes.io/zone"
            yield FieldError(f"{path}.{mode}", key, message)


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= _LONGEST_PREFIX and _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None
