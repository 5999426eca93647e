"""Profilings: reports of training programs, stored in status.profilings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from di_api.field_error import mapping
from di_server.jobs.heartbeats import Beat, beaten
from di_server.jobs.progress import LONGEST_REASON, advanced, faults, refused, with_shares
from di_server.model.job import check_active
from di_server.problems import OutOfBounds, Problem

MAX_BYTES: Final = 32 * 1024
"""Maximum bytes as compact JSON, which every watcher of the job gets."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report of one job."""

    profilings: Mapping[str, Any]
    check: Callable[[Mapping[str, Any]], None]
    """Raises a Problem if the report is not about the given job."""
    beat: Beat | None = None
    """The sender's heartbeat. With it alone the report is no progress."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Decisions of the allocator about a job that reports."""

    batch_size: int | None
    """None: it advises none."""
    nodes: Mapping[str, int]
    """Number of nodes by task, of the tasks that it placed."""


NO_ADVICE: Final = Advice(None, {})


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging several reports into a job."""

    patch: dict[str, Any] | None
    """RFC 7396 patch, which sets the version that was read; None if nothing changes."""
    problems: Sequence[Problem | None]
    """The problem of each report, None if it was accepted."""
    advice: Advice = NO_ADVICE


class Senseless(OutOfBounds):
    """A known key has an invalid value; the job's status records it."""


def status_patch(job: Mapping[str, Any], reports: Sequence[Report], now: datetime) -> Merged:
    """Merge reports into the job's status one after the other, as if each were written alone.

    A report is refused if it is about another job, if the job has ended, if all profilings together
    would exceed MAX_BYTES, or if a known key is invalid.
    """
    status = job.get("status") or {}
    held, progress = status.get("profilings"), status.get("progress")
    merged, problems = held, list[Problem | None]()
    for report in reports:
        problem: Problem | None = None
        try:
            merged = _take(job, merged, report)
            if report.profilings or report.beat is None:
                progress = with_shares(advanced(progress, merged, now), report.profilings, now)
            if report.beat is not None:
                progress = beaten(progress, report.beat, now)
        except Senseless as error:
            problem = error
            progress = refused(progress, error.message)
        except Problem as error:
            problem = error
        problems.append(problem)
    # Not the reports themselves: a key that one report removes another can set again, which no
    # merged patch could express.
    changed: dict[str, Any] = {}
    if not all(problems):
        changed["profilings"] = difference(held, merged or {})
    if told := difference(status.get("progress"), progress or {}):
        changed["progress"] = told
    advised = Advice(_batch_size(status), _nodes(status))
    if not changed:
        return Merged(None, problems, advised)
    metadata = {"resourceVersion": job["metadata"]["resourceVersion"]}
    return Merged({"metadata": metadata, "status": changed}, problems, advised)


def _batch_size(status: Mapping[str, Any]) -> int | None:
    found = status.get("batchSize")
    # A value that was written by hand is no advice.
    if not isinstance(found, int) or isinstance(found, bool):
        return None
    return found if found > 0 else None


def _nodes(status: Mapping[str, Any]) -> dict[str, int]:
    return {
        task: len(set(map(str, nodes)))
        for task, nodes in mapping(status.get("placement")).items()
        if isinstance(nodes, list) and nodes
    }


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
    """Return `target` after the merge patch, as the API server computes it."""
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value) if isinstance(value, Mapping) else value
    return result


def difference(before: object, after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch that turns `before` into `after`."""
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
    """Return whether two values are equal as JSON; in Python 1, 1.0 and True are equal."""
    return orjson.dumps(one) == orjson.dumps(other)
