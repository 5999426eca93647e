"""The input of an explanation: objects as the API server returns them, of any shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

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
