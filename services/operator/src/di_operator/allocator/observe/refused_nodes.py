"""Nodes that the cluster's scheduler refused to pods of a job, and for how long they are not tried.

In memory alone: a leader that has just come tries them again, and is refused again.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from di_api.names import task_of_pod
from di_api.ownership import controlling_job
from di_operator.allocator.model.job import JobInfo, TaskInfo
from di_operator.allocator.observe.inventory import node_of_pod
from di_operator.allocator.withdrawals.delays import FIRST_DELAY, LONGEST_DELAY
from di_operator.lifecycle.observed.pods import refusal_of


class Place(NamedTuple):
    """A task of a job, on a node."""

    uid: str
    """Of the job."""
    task: str
    """Of a task whose replicas are of several pods: with the index of the replica behind it."""
    node: str

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> Self | None:
        """Where a job's pod is meant to be; None for others, and those that are free to choose."""
        owner, node = controlling_job(pod), node_of_pod(pod)
        if owner is None or node is None:
            return None
        return cls(owner["uid"], task_of_pod(owner["name"], pod["metadata"]["name"]), node)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    pod: str
    """UID of the pod."""
    words: str
    pause: timedelta
    until: datetime


class Refusals:
    """Remembers refusals by job; one is forgotten when its node takes that very pod after all.

    Others of its task may be there already, and say nothing about one more.
    """

    def __init__(self) -> None:
        self._by_job: dict[str, dict[Place, _Refusal]] = {}
        # Of pods seen since the last look, which brings the time.
        self._new: dict[Place, tuple[str, str]] = {}

    def put_pod(self, pod: Mapping[str, Any]) -> None:
        """Take in a job's pod as it is now."""
        if (place := Place.of(pod)) is None:
            return
        uid, known = pod["metadata"]["uid"], self._by_job.get(place.uid, {})
        if words := refusal_of(pod):
            name = pod["metadata"]["name"]
            told = f"the scheduler refused pod {name} on node {place.node}: {words}"
            self._new[place] = uid, told
        elif pod["spec"].get("nodeName"):
            if place in self._new and self._new[place][0] == uid:
                del self._new[place]
            if place in known and known[place].pod == uid:
                del known[place]

    def forget(self, uid: str) -> None:
        """Take in that a job is gone."""
        self._by_job.pop(uid, None)

    def look(self, now: datetime, jobs: Container[str]) -> None:
        """Begin the pauses of what has been refused since the last look.

        `jobs` are the UIDs of those that are there.
        """
        for place, (pod, words) in self._new.items():
            if place.uid not in jobs:
                continue
            known = self._by_job.setdefault(place.uid, {})
            before = known.get(place)
            if before is not None and now < before.until:
                # Another pod of those that were made together.
                continue
            pause = FIRST_DELAY
            if before is not None and now < before.until + LONGEST_DELAY:
                pause = min(2 * before.pause, LONGEST_DELAY)
            known[place] = _Refusal(pod=pod, words=words, pause=pause, until=now + pause)
        self._new.clear()

    def words(self, uid: str, now: datetime) -> str:
        """What the scheduler said last of a node that is not tried now; else empty."""
        lasting = self._lasting(uid, now).values()
        return max(lasting, key=lambda one: one.until - one.pause).words if lasting else ""

    def bar(self, uid: str, job: JobInfo, now: datetime) -> JobInfo:
        """Return a job none of whose tasks goes where it is not to be tried now."""
        barred = self._lasting(uid, now)
        if not barred:
            return job
        tasks = tuple(
            replace(
                task,
                constraints=replace(
                    task.constraints,
                    barred=frozenset(place.node for place in barred if _is_of(place, task)),
                ),
            )
            for task in job.tasks
        )
        return replace(job, tasks=tasks)

    def _lasting(self, uid: str, now: datetime) -> Mapping[Place, _Refusal]:
        known = self._by_job.get(uid, {})
        return {place: found for place, found in known.items() if now < found.until}


def _is_of(place: Place, task: TaskInfo) -> bool:
    """Whether a place is one of a task, or of one of its replicas of several pods."""
    outer, _, replica = place.task.rpartition("-")
    return place.task == task.name or (task.unit > 1 and outer == task.name and replica.isdecimal())
