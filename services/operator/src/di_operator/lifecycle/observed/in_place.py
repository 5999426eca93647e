"""Main containers that failed and go on in their pod, as its status shows.

In a pod with `restartPolicy: OnFailure` the kubelet starts a container again that failed, after
pauses of its own. `restartCount` is how often it has done so; while it waits to do it again, the
failure it waits for is one more. Only the main container counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.pods.main_container import main_status

Object = Mapping[str, Any]

ON_THE_WAY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""What a container waits for that is about to run."""


def failures_in(pod: Object) -> int:
    """How many failures of its main container a pod has outlived, or is about to."""
    main = main_status(pod)
    return _failures_of(main) if main is not None else 0


def has_failed(container: Object) -> bool:
    """Whether a container failed that is started again."""
    return _failures_of(container) > 0


def is_down(pod: Object) -> bool:
    """Whether the main container failed and does not run again yet."""
    main = main_status(pod)
    return main is not None and has_failed(main) and _waiting(main) is not None


def last_failure(pod: Object) -> tuple[Object, Object] | None:
    """The main container, and how it failed last; None: the status does not say."""
    main = main_status(pod)
    ended = _last_end(main) if main is not None else None
    return (main, ended) if main is not None and ended and ended.get("exitCode") else None


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
