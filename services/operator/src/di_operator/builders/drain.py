"""The preStop hook that asks a pod to drain before it is terminated.

The kubelet calls the hook of the main container (core/v1 Lifecycle.preStop) for every deletion: by
the operator, a person, or an eviction. The grace period includes the time of the hook, so it is
extended by the drain's timeout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api import names
from di_api.pods.main_container import main_container
from di_api.spec import Drain, Task
from di_operator.builders.access import HEADER_DRAIN, drain_token

DEFAULT_GRACE: Final = 30
"""Seconds of grace that core/v1 gives a pod without `terminationGracePeriodSeconds`."""


def is_asked(task: Task, index: int) -> bool:
    """Return whether the pod at a local index is asked to drain. Behind a Service that lists
    leaders, only the leaders are.
    """
    return task.drain is not None and (task.is_leader(index) or not task.drains_leaders)


def with_drain(
    spec: Mapping[str, Any], drain: Drain, *, secret: str | None = None
) -> dict[str, Any]:
    """Return a pod's spec with the drain hook; the containers are copied.

    A hook of the template stays, although admission refuses it. With the job's `secret` the kubelet
    sends a token that is derived from it.
    """
    main, hook = main_container(spec.get("containers") or []), _hook(drain, secret)
    if main is not None and hook is not None:
        main["lifecycle"] = {"preStop": hook, **(main.get("lifecycle") or {})}
    return {
        **spec,
        "terminationGracePeriodSeconds": _grace(spec) + drain.timeout_seconds,
    }


def grace_note(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotation with the grace period that the spec has without a drain."""
    return {names.ANNOTATION_GRACE_SECONDS: str(_grace(spec))}


def _grace(spec: Mapping[str, Any]) -> int:
    given = spec.get("terminationGracePeriodSeconds")
    return given if isinstance(given, int) else DEFAULT_GRACE


def _hook(drain: Drain, secret: str | None) -> dict[str, Any] | None:
    if drain.path is not None and drain.port is not None:
        shown = [] if secret is None else [{"name": HEADER_DRAIN, "value": drain_token(secret)}]
        headers = {"httpHeaders": shown} if shown else {}
        return {"httpGet": {"path": drain.path, "port": drain.port, **headers}}
    # A drain with neither field exists only if no webhook and no CRD checked the spec.
    return {"exec": {"command": [*drain.command]}} if drain.command else None
