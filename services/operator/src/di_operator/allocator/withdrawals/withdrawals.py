"""Withdrawal of grants whose pods the API server refuses. Pure.

A grant is a lease. The API server may refuse the pods that a grant is for: a quota, Pod Security,
an admission policy, a missing PriorityClass. The granted nodes then idle, and others may have been
evicted for them. So a grant without its pods is withdrawn `GRACE` after the first refusal,
whatever its cause. The job is kept out with growing delays and then tried again. A job whose pods
are refused in a dry run before it has nodes is kept out at once, in the same way.

A job that is kept out is also tried when its spec changes: that may be the correction.

Pods that exist are not withdrawn while they are enough to run: the job keeps its size until the
delay is over.

It is in memory alone: another leader tries again, is refused, and withdraws the grant in the same
way.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from di_api.timestamps import format_time
from di_operator.allocator.model.job import JobInfo, NodeList, least
from di_operator.allocator.withdrawals.delays import FIRST_DELAY, LONGEST_DELAY, spread

GRACE: Final = timedelta(seconds=15)
"""Time for which a grant stands without its pods after the first refused write. A quota counts
ended pods for some seconds.
"""
LONGEST_MESSAGE: Final = 512
"""Maximum length of the API server's message, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedWrite:
    """A write for a job that the API server refused.

    Attributes:
        uid: of the job.
        key: of the job, `<namespace>/<name>`.
        message: of the API server.
        at: aware.
        is_of_server: the server failed (5xx) and did not judge the object; the delay then stays at
            its shortest, for the failure may end at any moment.
        generation: of the spec that the write was for.
        is_dry_run: whether the API server was asked before the job had nodes.
    """

    uid: str
    message: str
    at: datetime
    is_of_server: bool = False
    generation: object = None
    is_dry_run: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOut:
    """A job whose pods are refused: it waits without nodes, and no policy is asked about it.

    Attributes:
        key: of the job, `<namespace>/<name>`.
        preemptible: whether the allocator places it.
        message: why, for its condition.
    """

    key: str
    preemptible: bool
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Withdrawal:
    message: str
    generation: object
    delay: timedelta
    until: datetime
    sizes: Mapping[str, int] | None
    """Pods that the job keeps, by task; None: none."""


class Withdrawals:
    """Refused writes of jobs since their pods were last complete, and the grants withdrawn for
    them, by UID of the job.
    """

    def __init__(self) -> None:
        self._refused: dict[str, RefusedWrite] = {}
        # By UID: the number of pods at the refusal. One more is progress.
        self._pods: dict[str, int] = {}
        self._withdrawn: dict[str, _Withdrawal] = {}
        self._taken_up: set[str] = set()

    def put(self, refused: RefusedWrite) -> None:
        """Record a refused write; the time of the first one counts, and the last message."""
        known = self._refused.get(refused.uid, refused)
        message = refused.message[:LONGEST_MESSAGE]
        self._refused[refused.uid] = replace(refused, message=message, at=known.at)

    def forget(self, uid: str) -> None:
        """Record that a job is gone or has ended."""
        self._drop(uid)
        self._withdrawn.pop(uid, None)
        self._taken_up.discard(uid)

    def _drop(self, uid: str) -> None:
        self._refused.pop(uid, None)
        self._pods.pop(uid, None)

    def knows(self, uid: str) -> bool:
        """Return whether a job has a refused write or a withdrawn grant."""
        return uid in self._refused or uid in self._withdrawn

    def see(self, uid: str, placed: NodeList, pods: Mapping[str, int]) -> None:
        """Record the pods of a job on the nodes of its status. A job that was once complete has
        run, and is not given up for a pod that cannot be replaced.
        """
        if not placed:
            self._taken_up.discard(uid)
        elif all(len(nodes) <= pods.get(task, 0) for task, nodes in placed.tasks):
            self._taken_up.add(uid)

    def retain(self, uids: Container[str]) -> None:
        """Drop refused writes of jobs that the allocator does not decide on."""
        for uid in [uid for uid in self._refused if uid not in uids]:
            self._drop(uid)

    def next_due(self, now: datetime) -> datetime | None:
        """Return when the next grace or delay after `now` ends; None: none is running."""
        times = [
            *(refused.at + GRACE for refused in self._refused.values()),
            *(withdrawn.until for withdrawn in self._withdrawn.values()),
        ]
        return min((time for time in times if time > now), default=None)

    def decide(
        self,
        uid: str,
        job: JobInfo,
        held: NodeList,
        pods: Mapping[str, int],
        now: datetime,
        *,
        generation: object = None,
    ) -> tuple[JobInfo, NodeList] | str:
        """Return a job and its nodes as a policy is to see them, or why it is kept out.

        Args:
            uid: of the job.
            job: what it asks for.
            held: what it is granted.
            pods: by task, how many of its pods exist and are not ending, or have
                succeeded.
            now: aware.
            generation: of its spec.
        """
        kept = self._withdrawn.get(uid)
        # A running job changes its own size again and again, so its delay would never end.
        if kept is not None and kept.sizes is None and kept.generation != generation:
            del self._withdrawn[uid]
        self._judge(uid, job, held, pods, now, generation=generation)
        found = self._withdrawn.get(uid)
        if found is None or found.until <= now:
            return job, held
        if found.sizes is None:
            return found.message
        return _not_above(job, found.sizes), _cut(held, found.sizes)

    def _judge(
        self,
        uid: str,
        job: JobInfo,
        held: NodeList,
        pods: Mapping[str, int],
        now: datetime,
        *,
        generation: object,
    ) -> None:
        before, refused = self._withdrawn.get(uid), self._refused.get(uid)
        if refused is not None and refused.is_dry_run:
            self._drop(uid)
            waits = before is not None and before.until > now
            if not held and not waits and refused.generation == generation:
                self._withdrawn[uid] = _withdrawn(refused, before, now, generation)
        elif not held:
            # The refusal was for nodes that the job has given up since.
            self._drop(uid)
        elif all(len(held.task(task.name)) <= pods.get(task.name, 0) for task in job.tasks):
            self._drop(uid)
            # A job that keeps its size proves nothing about a larger one.
            if before is not None and _exceeds(pods, before.sizes or {}):
                del self._withdrawn[uid]
        elif refused is None:
            return
        elif (number := sum(pods.values())) > self._pods.setdefault(uid, number):
            self._drop(uid)
        elif now >= refused.at + GRACE:
            found = replace(
                _withdrawn(refused, before, now, generation), sizes=_kept_sizes(job, pods)
            )
            # While the API server fails, existing pods are worth more than the nodes of the
            # missing ones.
            is_kept = uid in self._taken_up or refused.is_of_server
            if found.sizes is not None or not (number and is_kept):
                self._drop(uid)
                self._withdrawn[uid] = found


def _withdrawn(
    refused: RefusedWrite, before: _Withdrawal | None, now: datetime, generation: object
) -> _Withdrawal:
    delay = FIRST_DELAY
    if before is not None and not refused.is_of_server:
        delay = min(2 * before.delay, LONGEST_DELAY)
    until = now + spread(delay, refused.uid)
    what = (
        "no nodes are granted, because a dry run of the job's pods was refused"
        if refused.is_dry_run
        else f"the grant was withdrawn {round(GRACE.total_seconds())} s after a write was refused"
    )
    return _Withdrawal(
        message=f"{what}; the next try is at {format_time(until)}: {refused.message}",
        generation=generation,
        delay=delay,
        until=until,
        sizes=None,
    )


def _kept_sizes(job: JobInfo, pods: Mapping[str, int]) -> Mapping[str, int] | None:
    """Return which of its pods are enough for a job to run, by task; None: they are too few."""
    # Whole replicas: if a replica lacks a pod, its other pods are of no use.
    sizes = {task.name: pods.get(task.name, 0) // task.unit * task.unit for task in job.tasks}
    is_enough = all(sizes[task.name] >= least(job, task) for task in job.tasks)
    return sizes if is_enough else None


def _exceeds(pods: Mapping[str, int], sizes: Mapping[str, int]) -> bool:
    return any(count > sizes.get(task, 0) for task, count in pods.items())


def _not_above(job: JobInfo, sizes: Mapping[str, int]) -> JobInfo:
    tasks = tuple(
        replace(
            task,
            replicas=max(task.minimum, min(task.replicas, sizes.get(task.name, task.replicas))),
            maximum=max(task.minimum, min(task.maximum, sizes.get(task.name, task.maximum))),
        )
        for task in job.tasks
    )
    return replace(job, tasks=tasks)


def _cut(held: NodeList, sizes: Mapping[str, int]) -> NodeList:
    return NodeList.of({task: nodes[: sizes.get(task, 0)] for task, nodes in held.tasks})
