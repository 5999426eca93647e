"""A pod that is asked to drain before it is ended.

Its kubelet asks, by the hook of the main container (core/v1 Lifecycle.preStop), whoever deletes the
pod: the operator, a person, or an eviction. The grace period counts from then, so it is longer by
the time that draining may take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api import names
from di_api.spec import Drain, Task
from di_operator.builders.access import HEADER_DRAIN, drain_token
from di_operator.builders.containers import main_container

DEFAULT_GRACE: Final = 30
"""Seconds that core/v1 gives a pod which does not say (terminationGracePeriodSeconds)."""


def is_asked(task: Task, index: int) -> bool:
    """Whether the pod at a local index is asked to drain: of a Service that lists leaders they
    alone are."""
    return task.drain is not None and (task.is_leader(index) or not task.drains_leaders)


def with_drain(
    spec: Mapping[str, Any], drain: Drain, *, secret: str | None = None
) -> dict[str, Any]:
    """A pod's spec, with containers of its own, that is asked to drain.

    A hook that the template has, which admission refuses, stays. With the job's `secret` the
    kubelet shows a token of it.
    """
    main, hook = main_container(spec.get("containers") or []), _hook(drain, secret)
    if main is not None and hook is not None:
        main["lifecycle"] = {"preStop": hook, **(main.get("lifecycle") or {})}
    return {
        **spec,
        "terminationGracePeriodSeconds": _grace(spec) + drain.timeout_seconds,
    }


def grace_note(spec: Mapping[str, Any]) -> dict[str, str]:
    """The annotation of a pod with what the grace period of that spec is without a drain."""
    return {names.ANNOTATION_GRACE_SECONDS: str(_grace(spec))}


def _grace(spec: Mapping[str, Any]) -> int:
    given = spec.get("terminationGracePeriodSeconds")
    return given if isinstance(given, int) else DEFAULT_GRACE


def _hook(drain: Drain, secret: str | None) -> dict[str, Any] | None:
    if drain.path is not None and drain.port is not None:
        shown = [] if secret is None else [{"name": HEADER_DRAIN, "value": drain_token(secret)}]
        headers = {"httpHeaders": shown} if shown else {}
        return {"httpGet": {"path": drain.path, "port": drain.port, **headers}}
    # Neither is only in one that no webhook and no CRD has seen.
    return {"exec": {"command": [*drain.command]}} if drain.command else None
