"""Bodies of core/v1 Events on a job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any


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
    """Return the Event; ``name`` must be unique in the namespace, ``instance`` names the operator.

    A repeated event keeps its name and first time, and grows ``count`` and ``last``.
    """
    raise NotImplementedError
