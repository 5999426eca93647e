"""Reduces the specs of pods to the node and the amounts that they take or wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_operator.builders.pinning import node_of, pin
from di_operator.lifecycle.observed.pods import refusal_of

# Of a pod that no node takes: where it may go, and which pods it goes before.
_WANTS = ("nodeSelector", "affinity", "tolerations", "priority")


def of_others(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod's spec that has its node and the amounts it takes or waits for."""
    spec = body.get("spec") or {}
    wants = _WANTS if refusal_of(body) else ()
    return {
        **{key: spec[key] for key in wants if key in spec},
        **{key: spec[key] for key in ("nodeName", "overhead", "resources") if key in spec},
        "containers": [_requests_of(one) for one in spec.get("containers") or ()],
        "initContainers": [_requests_of(one) for one in spec.get("initContainers") or ()],
    }


def node_in(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod's spec with the node that it is bound or pinned to."""
    if name := spec.get("nodeName"):
        return {"nodeName": name}
    node = node_of(spec)
    return {"affinity": pin(node)} if node else {}


def _requests_of(container: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("resources", "restartPolicy")
    return {key: container[key] for key in kept if key in container}
