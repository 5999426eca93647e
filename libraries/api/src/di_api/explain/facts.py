"""The input of an explanation: objects as the API server returns them, of any shape, and readers of
their parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from di_api.field_error import items, mapping
from di_api.pods.main_container import ALL_CONTAINERS, phase_of
from di_api.timestamps import parse_time

_LAST: Final = datetime.max.replace(tzinfo=UTC)

Object: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that was read about a job; unreadable objects are left out.

    Attributes:
        name, namespace: of the job to explain.
        now: by the API server's clock.
        job: None if there is none with that name.
        pods: the job's pods.
        events: Events of the job and its pods.
        nodes: the cluster's nodes, empty without permission to read them.
        limit_ranges: those of the namespace, if a message is about one.
        logs: log tails of pods that ended or are not ready, by pod name.
        jobs: names of the namespace's jobs, if there is none with that name.
        unread: what could not be read: "pods", "events".
    """

    name: str
    namespace: str
    now: datetime
    job: Object | None
    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    nodes: Sequence[Object] = ()
    limit_ranges: Sequence[Object] = ()
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    jobs: Sequence[str] = ()
    unread: frozenset[str] = frozenset()


def text_of(value: object) -> str:
    """Return a string, empty for any other value."""
    return value if isinstance(value, str) else ""


def unhealthy_pods(facts: Facts) -> list[Object]:
    """Return the unhealthy pods, the first that failed first."""
    return sorted((pod for pod in facts.pods if not is_healthy(pod)), key=_failed_at)


def is_healthy(pod: Object) -> bool:
    """Return whether a pod is ready, or its program has succeeded."""
    status = mapping(pod.get("status"))
    if phase_of(pod) == "Succeeded":
        return True
    return any(
        mapping(each).get("type") == "Ready" and mapping(each).get("status") == "True"
        for each in items(status.get("conditions"))
    )


def name_of(pod: Object) -> str:
    """Return a pod's name."""
    return text_of(mapping(pod.get("metadata")).get("name"))


def uid_of(pod: Object) -> str:
    """Return a pod's UID."""
    return text_of(mapping(pod.get("metadata")).get("uid"))


def node_of(pod: Object) -> str:
    """Return the node that a pod is bound to; empty if there is none."""
    return text_of(mapping(pod.get("spec")).get("nodeName"))


def ready_condition(node: Object) -> Object:
    """Return the Ready condition of a node."""
    for each in items(mapping(node.get("status")).get("conditions")):
        if mapping(each).get("type") == "Ready":
            return mapping(each)
    return {}


def _failed_at(pod: Object) -> tuple[bool, datetime, str]:
    """Return a sort key: failed pods first, by time, then by name."""
    status, times = mapping(pod.get("status")), []
    for kind in ALL_CONTAINERS:
        for each in items(status.get(kind)):
            for state in ("lastState", "state"):
                ended = mapping(mapping(mapping(each).get(state)).get("terminated"))
                if ended.get("exitCode") not in (0, None):
                    times.append(parse_time(ended.get("finishedAt")) or _LAST)
    return not times, min(times, default=_LAST), name_of(pod)
