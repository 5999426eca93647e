"""Containers that failed and go on in their pod, as its status tells of them.

In a pod with `restartPolicy: OnFailure` the kubelet starts a container again that failed, after
pauses of its own. `restartCount` is how often it has done so; while it waits to do it again, the
failure it waits for is one more. Init containers and sidecars have no part in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Object = Mapping[str, Any]

CONTAINERS: Final = "containerStatuses"
"""Of a pod's status: the containers that it is about."""
ON_THE_WAY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""What a container waits for that is about to run."""


def failures_in(status: Object) -> int:
    """How many failures of containers the pod has outlived, or is about to."""
    return sum(_failures_of(container) for container in _containers(status))


def has_failed(container: Object) -> bool:
    """Whether a container failed that is started again."""
    return _failures_of(container) > 0


def is_down(status: Object) -> bool:
    """Whether a container that failed does not run again yet."""
    return any(_waiting(each) is not None for each in _containers(status) if has_failed(each))


def last_failure(status: Object) -> tuple[Object, Object] | None:
    """The container that failed last, and how; None: the status does not say."""
    failed = [
        (container, ended)
        for container in _containers(status)
        if (ended := _last_end(container)) and ended.get("exitCode")
    ]
    return max(failed, key=lambda each: each[1].get("finishedAt") or "", default=None)


def _containers(status: Object) -> Iterator[Object]:
    yield from status.get(CONTAINERS) or ()


def _failures_of(container: Object) -> int:
    waiting = _waiting(container)
    # Once the next one is on its way, or runs, it is counted already.
    waits = waiting is not None and waiting not in ON_THE_WAY and bool(_last_end(container))
    return (container.get("restartCount") or 0) + waits


def _waiting(container: Object) -> str | None:
    """What a container waits for; None: it does not wait."""
    waiting = (container.get("state") or {}).get("waiting")
    return None if waiting is None else waiting.get("reason") or ""


def _last_end(container: Object) -> Object | None:
    return (container.get("lastState") or {}).get("terminated")
