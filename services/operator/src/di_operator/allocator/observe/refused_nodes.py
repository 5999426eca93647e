"""Nodes that the cluster's scheduler refused to pods of a job, with a retry delay.

It is in memory alone: a new leader tries these nodes again, and is refused again.
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
    """UID of the job."""
    task: str
    """Its name; for a task whose replicas are of several pods followed by the index of the
    replica.
    """
    node: str

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> Self | None:
        """Return the place for which a job's pod was created; None for other pods, and those
        without a fixed node.
        """
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
    """The nodes that the scheduler refused to each job; the node is tried again after its delay.

    A refusal ends early when the node takes that very pod after all. Other pods of the task that
    run there already do not end it.
    """

    def __init__(self) -> None:
        self._by_job: dict[str, dict[Place, _Refusal]] = {}
        # From pods seen since the last round, which supplies the time.
        self._new: dict[Place, tuple[str, str]] = {}

    def put_pod(self, pod: Mapping[str, Any]) -> None:
        """Process a job's pod as it is now."""
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
        """Record the deletion of a job."""
        self._by_job.pop(uid, None)

    def look(self, now: datetime, jobs: Container[str]) -> None:
        """Start the delays of what has been refused since the last round.

        `jobs` are the UIDs of the jobs that exist.
        """
        for place, (pod, words) in self._new.items():
            if place.uid not in jobs:
                continue
            known = self._by_job.setdefault(place.uid, {})
            before = known.get(place)
            if before is not None and now < before.until:
                # Another pod of those that were created together.
                continue
            pause = FIRST_DELAY
            if before is not None and now < before.until + LONGEST_DELAY:
                pause = min(2 * before.pause, LONGEST_DELAY)
            known[place] = _Refusal(pod=pod, words=words, pause=pause, until=now + pause)
        self._new.clear()

    def words(self, uid: str, now: datetime) -> str:
        """Return the scheduler's last message for a node that is not tried now; else empty."""
        lasting = self._lasting(uid, now).values()
        return max(lasting, key=lambda one: one.until - one.pause).words if lasting else ""

    def bar(self, uid: str, job: JobInfo, now: datetime) -> JobInfo:
        """Return a job whose tasks avoid the nodes that are not tried now."""
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
    """Return whether a place belongs to a task, or to one of its replicas of several pods."""
    outer, _, replica = place.task.rpartition("-")
    return place.task == task.name or (task.unit > 1 and outer == task.name and replica.isdecimal())
