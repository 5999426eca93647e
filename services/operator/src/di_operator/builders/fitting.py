"""Changes to a replica's next pod after a failure: memory, avoided nodes, and the log tail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from di_operator.builders.pinning import avoiding

Object = Mapping[str, Any]
_CONTAINERS = ("initContainers", "containers")


def fitted(
    body: dict[str, Any],
    *,
    memory: Mapping[str, str],
    avoided: Iterable[str],
    keeps_last_words: bool,
) -> dict[str, Any]:
    """Return a pod's body with new `memory` by container name, that excludes the `avoided` nodes. A
    termination message policy of the template is kept.
    """
    spec = grown(avoiding(body["spec"], avoided), memory)
    if keeps_last_words:
        spec = _with_containers(spec, _talking)
    return {**body, "spec": spec}


def grown(spec: Object, memory: Mapping[str, str]) -> dict[str, Any]:
    """Return a pod's spec whose containers have this memory as request and limit."""

    def with_memory(container: Object) -> Object:
        amount = memory.get(container.get("name", ""))
        if amount is None:
            return container
        resources: Object = container.get("resources") or {}
        both = {
            kind: {**(resources.get(kind) or {}), "memory": amount}
            for kind in ("requests", "limits")
        }
        return {**container, "resources": {**resources, **both}}

    return _with_containers(spec, with_memory) if memory else {**spec}


def _with_containers(spec: Object, change: Callable[[Object], Object]) -> dict[str, Any]:
    changed = {field: [*map(change, spec[field])] for field in _CONTAINERS if spec.get(field)}
    return {**spec, **changed}


def _talking(container: Object) -> Object:
    if container.get("terminationMessagePolicy"):
        return container
    return {**container, "terminationMessagePolicy": "FallbackToLogsOnError"}
