"""The state of a job while it is followed: one line whenever it has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.field_error import mapping
from di_cli.views.jobs import progress_share

_TENTHS: Final = 10


def state_of(job: Mapping[str, Any]) -> str:
    """Return phase, ready pods and progress in steps of ten percent; empty without a phase."""
    status = mapping(job.get("status"))
    phase = status.get("phase")
    if not isinstance(phase, str):
        return ""
    ready, replicas = status.get("readyReplicas"), status.get("replicas")
    parts = [phase]
    if isinstance(ready, int) and isinstance(replicas, int) and replicas:
        parts.append(f"{ready}/{replicas} ready")
    share = progress_share(mapping(status.get("progress")))
    if share is not None:
        parts.append(f"{int(share * _TENTHS) * 100 // _TENTHS} %")
    return "  ".join(parts)
