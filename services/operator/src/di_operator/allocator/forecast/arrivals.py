"""Decisions on jobs that arrived since the last reconsideration of all jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from di_operator.allocator.admission.in_order import in_order
from di_operator.allocator.grants.granting import Words, targets
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.allocator.sharing.quotas import Allowance

Ask = Callable[[JobInfo, Mapping[str, NodeInfo]], NodeList | None]
"""The policy's `allocate`; returns None if the policy failed."""


class LeftRoom:
    """The nodes with what is free beside everything that jobs have or are about to have."""

    def __init__(self, snapshot: SchedulingSnapshot, targets: Mapping[str, NodeList]) -> None:
        self._capacity = FreeCapacity(snapshot.nodes)
        for key, nodes in targets.items():
            self._capacity.take_all(snapshot.jobs[key], nodes)
        self._nodes = {
            node.name: replace(node, free=dict(free))
            for node, free in zip(self._capacity.nodes, self._capacity.free, strict=True)
        }

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        """Return the nodes with the capacity that an arriving job can have."""
        return self._nodes

    def take(self, job: JobInfo, wants: NodeList) -> None:
        """Subtract what a job takes, if it fits."""
        if self._capacity.take_all(job, wants):
            for name in set(wants):
                free = self._capacity.free[self._capacity.index[name]]
                self._nodes[name] = replace(self._nodes[name], free=dict(free))


def ask_for_arrivals(words: Words, snapshot: SchedulingSnapshot, ask: Ask) -> dict[str, NodeList]:
    """Return the policy's answers by key; jobs that already wait are not asked about again."""
    new = [
        job
        for job in in_order(snapshot.jobs)
        if snapshot.uids[job.key] not in words and not snapshot.held[job.key]
    ]
    answer: dict[str, NodeList] = {}
    if not new:
        return answer
    given, allowance = targets(words, snapshot), Allowance()
    room = LeftRoom(snapshot, given)
    for key, nodes in given.items():
        if snapshot.jobs[key].account is not None:
            allowance.take(snapshot.jobs[key], nodes)
    for job in new:
        within = allowance.within(job)
        wants = ask(within, room.nodes) if within is not None else WAIT
        if wants is not None:
            answer[job.key] = wants
            room.take(job, wants)
            allowance.take(job, wants)
    return answer
