"""The pods that a job is to have and that do not exist, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.indexes.ranges import read_ranges
from di_api.indexes.replicas import indexes
from di_api.names import pod_name
from di_api.phase import Phase
from di_api.timestamps import parse_time
from di_api.wording import span

Object = Mapping[str, Any]

_MOST: Final = 5000
"""Maximum number of pods of a task that are looked at; a spec of any shape can ask for more."""
_REFUSED: Final = frozenset({"QuotaExceeded", "CreateForbidden", "PodNameConflict"})
"""Reasons of a Pending job whose pods were tried and not created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPod:
    """A pod that does not exist.

    Attributes:
        index: local index in its task.
        is_done: it has succeeded, and was deleted since.
        why: why it does not exist; empty if the operator creates it next.
    """

    name: str
    task: str
    index: int
    is_done: bool
    why: str


def missing_pods(job: Object, pods: Iterable[str], now: datetime) -> list[MissingPod]:
    """Return the pods that a job is to have now, and that are not among the names `pods`.

    A job that waits, is suspended or has ended is to have none; a coordinator names its own.
    """
    if not _is_to_have_pods(job):
        return []
    there = frozenset(pods)
    return [each for each in _desired(job, now) if each.name not in there]


def _is_to_have_pods(job: Object) -> bool:
    status, spec = mapping(job.get("status")), mapping(job.get("spec"))
    phase = status.get("phase")
    if spec.get("suspend") is True or phase not in tuple(Phase):
        return False
    if phase == Phase.PENDING:
        return _condition(status).get("reason") in _REFUSED
    return not Phase(phase).is_finished


def _desired(job: Object, now: datetime) -> Iterator[MissingPod]:
    status, name = mapping(job.get("status")), str(mapping(job.get("metadata")).get("name") or "")
    placement = mapping(status.get("placement"))
    for task in map(mapping, items(mapping(job.get("spec")).get("tasks"))):
        task_name = str(task.get("name") or task.get("type") or "")
        size = max(1, _number(task.get("podsPerReplica"), 1))
        replicas = _number(task.get("replicas"), 1)
        if placement:
            replicas = min(replicas, len(items(placement.get(task_name))) // size)
        vacant = [each for each in items(task.get("vacant")) if isinstance(each, int)]
        done = frozenset(read_ranges(str(mapping(status.get("completedIndexes")).get(task_name))))
        failures = mapping(mapping(status.get("replicaFailures")).get(task_name))
        for replica in indexes(min(replicas, _MOST // size), vacant):
            why = _delay(mapping(failures.get(str(replica))), now) or _refusal(status)
            for index in range(replica * size, (replica + 1) * size):
                yield MissingPod(
                    name=pod_name(name, task_name, index, size),
                    task=task_name,
                    index=index,
                    is_done=index in done,
                    why="" if index in done else why,
                )


def _delay(record: Object, now: datetime) -> str:
    """Return how often a replica has failed: it is created again after a delay."""
    last = parse_time(record.get("lastFailure")) or parse_time(record.get("lastIgnored"))
    if last is None:
        return ""
    times = _number(record.get("restarts"), 0)
    failed = f"failed {times} times" if times > 1 else "failed"
    ago = span((now - last).total_seconds())
    return f"{failed}, the last time {ago} ago; it is created again after a delay"


def _refusal(status: Object) -> str:
    """Return the operator's message, if the job's phase has another reason than the phase."""
    found = _condition(status)
    reason = str(found.get("reason") or "")
    if reason in ("", f"Job{status.get('phase')}"):
        return ""
    return f"{reason}: {found.get('message') or ''}".rstrip(": ")


def _condition(status: Object) -> Object:
    for each in map(mapping, items(status.get("conditions"))):
        if each.get("type") == status.get("phase"):
            return each
    return {}


def _number(value: object, otherwise: int) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and isinstance(value, int) and value >= 0 else otherwise
