"""Profilings: what training programs report about themselves, kept in status.profilings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from di_server.jobs.progress import LONGEST_REASON, advanced, faults, refused
from di_server.model.job import check_active
from di_server.problems import OutOfBounds, Problem

MAX_BYTES: Final = 32 * 1024
"""As compact JSON. It travels with the job to every watcher."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was reported of one job."""

    profilings: Mapping[str, Any]
    check: Callable[[Mapping[str, Any]], None]
    """Raises a Problem for a job that it is not about."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What several reports make of a job."""

    patch: dict[str, Any] | None
    """RFC 7396, which sets the version decided on; None if there is nothing to write."""
    problems: Sequence[Problem | None]
    """What each report is refused for."""
    batch_size: int | None = None
    """What the allocator advises the job; None: nothing."""


class Senseless(OutOfBounds):
    """A key that is known holds what makes no sense; the job's status tells of it."""


def status_patch(job: Mapping[str, Any], reports: Sequence[Report], now: datetime) -> Merged:
    """Merge reports into the job's status one after the other, as if each were written alone.

    One is refused if it is about another job, if the job has ended, if all profilings together
    would pass MAX_BYTES with it, or if it makes no sense.
    """
    status = job.get("status") or {}
    held, progress = status.get("profilings"), status.get("progress")
    merged, problems = held, list[Problem | None]()
    for report in reports:
        problem: Problem | None = None
        try:
            merged = _take(job, merged, report)
            progress = advanced(progress, merged, now)
        except Senseless as error:
            problem = error
            progress = refused(progress, error.message)
        except Problem as error:
            problem = error
        problems.append(problem)
    # Not the reports themselves: what one removes another may set anew, which no patch can say.
    changed: dict[str, Any] = {}
    if not all(problems):
        changed["profilings"] = difference(held, merged or {})
    if told := difference(status.get("progress"), progress or {}):
        changed["progress"] = told
    advised = _batch_size(status)
    if not changed:
        return Merged(None, problems, advised)
    metadata = {"resourceVersion": job["metadata"]["resourceVersion"]}
    return Merged({"metadata": metadata, "status": changed}, problems, advised)


def _batch_size(status: Mapping[str, Any]) -> int | None:
    found = status.get("batchSize")
    # What somebody wrote by hand is no advice.
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    return found if found > 0 else None


def _take(job: Mapping[str, Any], held: object, report: Report) -> dict[str, Any]:
    report.check(job)
    check_active(job)
    merged = merge(held, report.profilings)
    size = len(orjson.dumps(merged))
    if size > MAX_BYTES:
        raise OutOfBounds(f"the profilings of a job hold at most {MAX_BYTES} bytes, not {size}")
    if wrong := faults(held, merged):
        raise Senseless("; ".join(wrong)[:LONGEST_REASON])
    return merged


def merge(target: object, patch: Mapping[str, Any]) -> dict[str, Any]:
    """`target` after the merge patch, as the API server computes it."""
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value) if isinstance(value, Mapping) else value
    return result


def difference(before: object, after: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes `after` of `before`."""
    held = before if isinstance(before, Mapping) else {}
    patch: dict[str, Any] = {key: None for key in held if key not in after}
    for key, value in after.items():
        if isinstance(value, Mapping):
            inner = difference(held.get(key), value)
            if inner or not isinstance(held.get(key), Mapping):
                patch[key] = inner
        elif key not in held or not _is_same(held[key], value):
            patch[key] = value
    return patch


def _is_same(one: object, other: object) -> bool:
    """Tell whether two values are the same as JSON: to Python 1, 1.0 and True are equal."""
    return orjson.dumps(one) == orjson.dumps(other)
