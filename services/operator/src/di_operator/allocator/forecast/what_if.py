"""Forecast of the allocator and the cluster's scheduler for a job that does not exist yet. Pure.

It runs the allocator's own steps. First the job arrives and is decided on alone; then all jobs are
reconsidered with it among them. The changes for other jobs are the difference from the same step
without the job. So the new job is not blamed for changes that would happen without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from di_api.ownership import is_controlled_by
from di_operator.allocator.admission.in_order import admit_one
from di_operator.allocator.forecast.arrivals import LeftRoom, ask_for_arrivals
from di_operator.allocator.forecast.hypothetical_job import Trial
from di_operator.allocator.grants.checked_plan import Change, change_of
from di_operator.allocator.grants.granting import NOTHING_SAID, Words, granted, step
from di_operator.allocator.grants.queue_report import QueueState, queue_states
from di_operator.allocator.grants.shortage import find_shortage
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList, TaskInfo
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.observe.changes import Changes
from di_operator.allocator.observe.cluster_reader import ClusterReader, ReadSpec
from di_operator.allocator.observe.inventory import Unreadable
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.allocator.placement.current_free_capacity import PresentRoom
from di_operator.allocator.sharing.queues import queues_of
from di_operator.allocator.sharing.quotas import Allowance

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A job that gets other nodes because of the new one."""

    key: str
    change: Change
    before: NodeList
    after: NodeList


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The forecast for one job.

    Attributes:
        at_once: the nodes it gets on arrival; WAIT: it waits.
        later: the nodes it has, or is about to have, once all jobs have been reconsidered. For
            a job that the scheduler places, they are nodes where it fits; the scheduler's
            choice may differ.
        shifts: the changes for other jobs.
        obstacle: why it does not run at once, empty if it does.
        impossible: why it would not run on an otherwise empty cluster, empty if it would.
    """

    at_once: NodeList
    later: NodeList
    shifts: tuple[Shift, ...] = ()
    obstacle: str = ""
    impossible: str = ""

    @property
    def starts(self) -> bool:
        """Return whether it runs by the time at which all jobs have been reconsidered."""
        return bool(self.at_once or self.later)


class Surroundings:
    """The cluster as it is, and jobs that are tried in it one after the other."""

    def __init__(
        self,
        changes: Changes,
        *,
        policy: Policy | None,
        now: datetime,
        read_spec: ReadSpec,
        kind_label: str | None = None,
    ) -> None:
        """Build it from `changes`, which has all objects of the cluster.

        `policy` is the allocator's; None: no allocator is enabled, and the scheduler places all
        jobs. `now` is aware. `kind_label` is the label whose value is a node's kind.
        """
        self._reader = ClusterReader(read_spec, kind_label=kind_label, queues=queues_of(policy))
        self._reader.take(changes)
        self._pods = [pod for _, pod in changes.pods.values()]
        self._jobs = {uid: job for uid, (_, job) in changes.jobs.items()}
        self._policy = policy
        self._now = now
        before = self._read(NOTHING_SAID)
        # Like a new leader: every job has the nodes in its status.
        self._words: Words = step(NOTHING_SAID, before, {}, whole=True, explain=False).words
        self.unreadable: Mapping[str, Unreadable] = before.unreadable
        """Objects that could not be read, and are left out."""

    def queues(self) -> list[QueueState]:
        """Return what each namespace uses of what its queue allows."""
        return queue_states(queues_of(self._policy), self._read(self._words))

    def forecast(self, trial: Trial) -> Forecast:
        """Return the forecast for a job. Raises ValueError for a job that the allocator cannot
        read.
        """
        if self._policy is not None and trial.asks_allocator:
            return self._allocated(trial, self._policy)
        bound = self._bound(trial.info())
        if self._policy is None or bound.starts or bound.impossible:
            return bound
        return self._with_reservation(trial, bound, self._policy)

    def first_end(self, trial: Trial, ends: Iterable[str]) -> str | None:
        """Return the UID of the first of these jobs whose end, after those before it, lets the job
        start.

        `ends` are UIDs in the order in which the jobs end. Later trials assume that these jobs
        have ended.
        """
        if self._policy is None or not trial.asks_allocator:
            info = trial.info()
            return next((uid for uid in self._ending(ends) if self._bound(info).at_once), None)
        self._reader.put_job(trial.job)
        return self._first_grants(ends, self._policy, {trial.uid}).get(trial.uid)

    def starts(self, ends: Iterable[str]) -> dict[str, str | None]:
        """Return, by UID of each waiting job of the allocator, the UID of the job whose end lets
        it start.

        None: it starts at the next reconsideration of all jobs. Jobs that do not start are left
        out. `ends` are UIDs in the order in which the jobs end.
        """
        if self._policy is None:
            return {}
        waiting = {uid for uid, word in self._words.items() if not word.wants}
        return self._first_grants(ends, self._policy, waiting)

    def _first_grants(
        self, ends: Iterable[str], policy: Policy, waiting: set[str]
    ) -> dict[str, str | None]:
        words, found, left = self._words, dict[str, str | None](), set(waiting)
        for after in chain((None,), self._ending(ends)):
            words = self._reconsidered(words, policy)[1]
            started = {uid for uid in left if uid in words and words[uid].wants}
            found |= dict.fromkeys(started, after)
            left -= started
            if not left:
                break
        return found

    def _ending(self, ends: Iterable[str]) -> Iterator[str]:
        """Remove the jobs one after the other; unknown ones are skipped."""
        for uid in ends:
            if (job := self._jobs.pop(uid, None)) is None:
                continue
            for pod in [each for each in self._pods if is_controlled_by(each, uid)]:
                self._reader.remove_pod(pod)
            self._reader.remove_job(job)
            yield uid

    def _allocated(self, trial: Trial, policy: Policy) -> Forecast:
        without = self._reconsidered(self._words, policy)[1]
        with self._tried(trial):
            snapshot = self._read(self._words)
            if trial.key not in snapshot.jobs:
                left_out = snapshot.unreadable.get(trial.uid)
                raise ValueError(left_out.reason if left_out else "it is none of the allocator's")
            answer = ask_for_arrivals(self._words, snapshot, policy.allocate)
            arrived = step(self._words, snapshot, answer, whole=False, explain=False).words
            after, words = self._reconsidered(arrived, policy)
        at_once = arrived[trial.uid].has if trial.uid in arrived else WAIT
        info = snapshot.jobs[trial.key]
        left = FreeCapacity(LeftRoom(snapshot, snapshot.held).nodes)
        allowance = Allowance()
        for key, held in snapshot.held.items():
            allowance.take(snapshot.jobs[key], held)
        return Forecast(
            at_once=at_once,
            later=words[trial.uid].wants,
            shifts=tuple(_shifts(snapshot, after, without, words, trial)),
            obstacle="" if at_once else allowance.shortage(info) or _shortage(info, left),
            impossible=_impossible(info, snapshot),
        )

    def _bound(self, info: JobInfo) -> Forecast:
        """Return the forecast for a job that the scheduler places: its pods are bound wherever
        they fit.
        """
        snapshot = self._read(self._words)
        room = PresentRoom(snapshot).capacity
        placed = admit_one(room, info, _roomiest)
        return Forecast(
            at_once=placed,
            later=placed,
            obstacle="" if placed else _shortage(info, room),
            impossible=_impossible(info, snapshot),
        )

    def _with_reservation(self, trial: Trial, bound: Forecast, policy: Policy) -> Forecast:
        """Return the forecast for a job that the scheduler places once the allocator has reserved
        capacity for its refused pods; `bound` if that does not help.
        """
        without = self._reconsidered(self._words, policy)[1]
        with self._tried(trial, trial.refused_pods()):
            after, words = self._reconsidered(self._words, policy)
        wants = {key: words[uid].wants for key, uid in after.uids.items() if uid in words}
        snapshot = self._read(self._words)
        kept = {key: nodes for key, nodes in wants.items() if key in snapshot.jobs}
        left = FreeCapacity(LeftRoom(snapshot, kept).nodes)
        placed = admit_one(left, trial.info(), _roomiest)
        if not placed:
            return bound
        shifts = tuple(_shifts(snapshot, after, without, words, trial))
        return replace(bound, later=placed, shifts=shifts)

    @contextmanager
    def _tried(self, trial: Trial, pods: Sequence[Object] = ()) -> Iterator[None]:
        """Have the job and its pods in the cluster until the end of the block."""
        self._reader.put_job(trial.job)
        try:
            for pod in pods:
                self._reader.put_pod(pod)
            yield
        finally:
            for pod in pods:
                self._reader.remove_pod(pod)
            self._reader.remove_job(trial.job)

    def _read(self, words: Words) -> SchedulingSnapshot:
        return self._reader.read(granted=granted(words), now=self._now)

    def _reconsidered(self, words: Words, policy: Policy) -> tuple[SchedulingSnapshot, Words]:
        snapshot = self._read(words)
        answer = policy.optimize(snapshot.jobs, snapshot.nodes, snapshot.held)
        return snapshot, step(words, snapshot, answer, whole=True, explain=True).words


def _shifts(
    before: SchedulingSnapshot,
    after: SchedulingSnapshot,
    without: Words,
    words: Words,
    trial: Trial,
) -> Iterable[Shift]:
    for key, uid in sorted(after.uids.items()):
        if uid == trial.uid or uid not in words or uid not in without:
            continue
        job, had, has = after.jobs[key], before.held[key], words[uid].wants
        change = change_of(job, had, has)
        if change is not None and change_of(job, without[uid].wants, has) is not None:
            yield Shift(key=key, change=change, before=had, after=has)


def _shortage(info: JobInfo, room: FreeCapacity) -> str:
    found = find_shortage(info, room)
    return found.message if found else "the policy lets other jobs go first"


def _impossible(info: JobInfo, snapshot: SchedulingSnapshot) -> str:
    empty = {name: replace(node, free=node.total) for name, node in snapshot.nodes.items()}
    found = find_shortage(info, FreeCapacity(empty))
    return found.message if found else ""


def _roomiest(_capacity: FreeCapacity, _task: TaskInfo, slots: Sequence[int]) -> int:
    """Return the node with the most free capacity, as the scheduler spreads pods by default."""
    return slots.index(max(slots))
