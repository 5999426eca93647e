"""Pods as rows of a table, by task and rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.names import ANNOTATION_RANK, LABEL_REPLICA_TYPE, LABEL_TASK_NAME, index_of_pod
from di_api.pods.main_container import ended_beside_main, main_first, phase_of
from di_cli.views.jobs import gpus_of
from di_cli.views.times import age

HEADER: Final = ("RANK", "POD", "TASK", "STATE", "RESTARTS", "GPUS", "NODE", "AGE")

Object = Mapping[str, Any]


def rows(pods: Iterable[Object], now: datetime) -> list[tuple[str, ...]]:
    """Return a row for each pod."""
    return [_row(pod, now) for pod in in_order(pods)]


def in_order(pods: Iterable[Object]) -> list[Object]:
    """Return pods by rank; those without one last, by name."""
    return sorted(pods, key=lambda pod: (rank_of(pod) is None, rank_of(pod) or 0, name_of(pod)))


def name_of(pod: Object) -> str:
    """Return the pod's name."""
    return str(mapping(pod.get("metadata")).get("name") or "")


def task_of(pod: Object) -> str:
    """Return its task; in a coordinated job its role."""
    labels = mapping(mapping(pod.get("metadata")).get("labels"))
    return str(labels.get(LABEL_TASK_NAME) or labels.get(LABEL_REPLICA_TYPE) or "")


def rank_of(pod: Object) -> int | None:
    """Return its rank in the job; None if it has none."""
    found = mapping(mapping(pod.get("metadata")).get("annotations")).get(ANNOTATION_RANK)
    return int(found) if isinstance(found, str) and found.isdecimal() else None


def index_of(pod: Object) -> int:
    """Return its index in its task."""
    return index_of_pod(name_of(pod))


def is_ready(pod: Object) -> bool:
    """Return whether it is ready."""
    return any(
        mapping(each).get("type") == "Ready" and mapping(each).get("status") == "True"
        for each in items(mapping(pod.get("status")).get("conditions"))
    )


def state_of(pod: Object) -> str:
    """Return its state in one word: the waiting reason or end of a container, the main container
    first, else the phase.
    """
    if mapping(pod.get("metadata")).get("deletionTimestamp"):
        return "Terminating"
    status = mapping(pod.get("status"))
    if reason := status.get("reason"):
        return str(reason)
    phase, beside = phase_of(pod), ended_beside_main(pod)
    if phase == "Succeeded":
        return phase
    for container in main_first(pod):
        if beside is not None and container is beside[0]:
            continue
        state = mapping(container.get("state"))
        for kind in ("waiting", "terminated"):
            reason = mapping(state.get(kind)).get("reason")
            if reason and reason != "Completed":
                return str(reason)
    return "NotReady" if phase == "Running" and not is_ready(pod) else phase


def _row(pod: Object, now: datetime) -> tuple[str, ...]:
    metadata, spec = mapping(pod.get("metadata")), mapping(pod.get("spec"))
    rank, gpus = rank_of(pod), gpus_of(spec)
    restarts = sum(
        count for each in main_first(pod) if isinstance(count := each.get("restartCount"), int)
    )
    return (
        "" if rank is None else str(rank),
        name_of(pod),
        task_of(pod),
        state_of(pod),
        str(restarts),
        str(gpus),
        str(spec.get("nodeName") or ""),
        age(metadata.get("creationTimestamp"), now),
    )
