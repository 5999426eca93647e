"""What an explanation is made from: objects as the API server gives them, of any shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

Object: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that is known of a job; what could not be read is left out.

    Attributes:
        name, namespace: of the job that is asked about.
        now: by the API server's clock.
        job: None if there is none of that name.
        pods: of the job.
        events: of the job and its pods.
        nodes: those of the cluster, none if they may not be read.
        logs: the last lines of pods that ended or are not ready, by the pod's name.
        jobs: names of the namespace's jobs, where there is none of that name.
    """

    name: str
    namespace: str
    now: datetime
    job: Object | None
    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    nodes: Sequence[Object] = ()
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    jobs: Sequence[str] = ()
