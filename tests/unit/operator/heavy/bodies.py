"""Jobs with specs of many bytes."""

from __future__ import annotations

from typing import Any, Final

from di_api.names import API_VERSION, KIND
from di_api.spec.bounds import MAX_ITEMS, MAX_SPEC_BYTES

WITHIN: Final = MAX_SPEC_BYTES // 2
BEYOND: Final = 2 * MAX_SPEC_BYTES


def heavy(
    spec_bytes: int, *, name: str = "a", status: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """A job with a variable for each 50 bytes or so of its spec, or as many as it may have."""
    count = max(1, min(spec_bytes // 50, MAX_ITEMS))
    digits = max(16, spec_bytes // count - 34)
    variables = [
        {"name": f"VARIABLE_{number:06}", "value": f"{number:0{digits}}"} for number in range(count)
    ]
    container = {"name": "di-container", "image": "none", "env": variables}
    task = {
        "name": "work",
        "type": "none",
        "replicas": 2,
        "template": {"spec": {"containers": [container]}},
    }
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": {**spec, "tasks": [task]},
        **({"status": status} if status is not None else {}),
    }


def ended(phase: str = "Succeeded") -> dict[str, Any]:
    """The status of a job that has ended."""
    at = "2026-01-01T00:00:00Z"
    condition = {"type": phase, "status": "True", "lastTransitionTime": at}
    return {"phase": phase, "conditions": [condition], "startTime": at, "completionTimestamp": at}


def started() -> dict[str, Any]:
    """The status of a job that runs."""
    at = "2026-01-01T00:00:00Z"
    condition = {"type": "Running", "status": "True", "lastTransitionTime": at}
    return {"phase": "Running", "conditions": [condition], "startTime": at}
