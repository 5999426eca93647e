"""Profilings: what training programs report about themselves, kept in status.profilings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from di_server.model.job import check_active
from di_server.problems import OutOfBounds

MAX_BYTES: Final = 32 * 1024
"""As compact JSON. It travels with the job to every watcher."""


def status_patch(job: Mapping[str, Any], reported: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch (RFC 7396) for the job's status; null removes a key.

    Raises:
        NotNow: the job has ended.
        OutOfBounds: all profilings together would pass MAX_BYTES.
    """
    check_active(job)
    held = (job.get("status") or {}).get("profilings")
    merged = merge(held, reported)
    size = len(orjson.dumps(merged))
    if size > MAX_BYTES:
        raise OutOfBounds(f"the profilings of a job hold at most {MAX_BYTES} bytes, not {size}")
    return {
        "metadata": {"resourceVersion": job["metadata"]["resourceVersion"]},
        "status": {"profilings": dict(reported)},
    }


def merge(target: object, patch: Mapping[str, Any]) -> dict[str, Any]:
    """`target` after the merge patch, as the API server computes it."""
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value) if isinstance(value, Mapping) else value
    return result
