"""Bodies of core/v1 Events on a job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from di_api import names
from di_api.timestamps import format_time

MAX_MESSAGE = 1024
"""Maximum length of an Event's message; the API server refuses a longer one."""


def event_body(
    *,
    job: Mapping[str, Any],
    type: str,  # noqa: A002 - the API's own field name
    reason: str,
    message: str,
    name: str,
    first: datetime,
    last: datetime,
    count: int,
    instance: str,
) -> dict[str, Any]:
    """Return the Event's body. ``name`` must be unique in the namespace, ``instance`` names the
    operator.

    A repeated event keeps its name and first time, and updates ``count`` and ``last``.
    """
    metadata = job["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        },
        "type": type,
        "reason": reason,
        "message": message[:MAX_MESSAGE],
        "firstTimestamp": format_time(first),
        "lastTimestamp": format_time(last),
        "count": count,
        "source": {"component": names.OPERATOR_NAME},
        "reportingComponent": names.OPERATOR_NAME,
        "reportingInstance": instance,
    }
