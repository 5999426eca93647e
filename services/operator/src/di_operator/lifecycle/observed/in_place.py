"""Main containers that failed and are restarted in their pod, from the pod's status.

In a pod with `restartPolicy: OnFailure` the kubelet restarts a failed container with its own
back-off. `restartCount` is the number of restarts so far. While the container waits for the next
restart, the failure before it counts as one more. Only the main container counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.pods.main_container import main_status

Object = Mapping[str, Any]

ON_THE_WAY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Waiting reasons of a container that is about to run."""


def failures_in(pod: Object) -> int:
    """Return how many failures of its main container a pod has survived, or is about to."""
    main = main_status(pod)
    return _failures_of(main) if main is not None else 0


def has_failed(container: Object) -> bool:
    """Return whether a container failed and is being restarted in its pod."""
    return _failures_of(container) > 0


def is_down(pod: Object) -> bool:
    """Return whether the main container failed and has not been restarted yet."""
    main = main_status(pod)
    return main is not None and has_failed(main) and _waiting(main) is not None


def last_failure(pod: Object) -> tuple[Object, Object] | None:
    """Return the main container and its last failure; None if the status has none."""
    main = main_status(pod)
    ended = _last_end(main) if main is not None else None
    return (main, ended) if main is not None and ended and ended.get("exitCode") else None


def _failures_of(container: Object) -> int:
    waiting = _waiting(container)
    # `restartCount` includes the failure as soon as the next container starts.
    waits = waiting is not None and waiting not in ON_THE_WAY and bool(_last_end(container))
    return (container.get("restartCount") or 0) + waits


def _waiting(container: Object) -> str | None:
    """Return the reason why a container waits; None if it does not wait."""
    waiting = (container.get("state") or {}).get("waiting")
    return None if waiting is None else waiting.get("reason") or ""


def _last_end(container: Object) -> Object | None:
    return (container.get("lastState") or {}).get("terminated")
