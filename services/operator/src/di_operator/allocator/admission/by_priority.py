"""Admission without shares: by priority, then age.

A running job keeps its nodes as long as they exist, unless a job of higher priority needs them to
start.
"""

from __future__ import annotations

from collections.abc import Mapping

from di_operator.allocator.admission.backfill import Backfill
from di_operator.allocator.admission.growth import at_most_asked, grow_running
from di_operator.allocator.admission.in_order import ChooseNode, admit_waiting, in_order
from di_operator.allocator.admission.preemption import Preemption
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.sharing.quotas import Allowance


def admit(
    jobs: Mapping[str, JobInfo],
    nodes: Mapping[str, NodeInfo],
    previous: Mapping[str, NodeList],
    *,
    choose_node: ChooseNode,
    backfill: Backfill = Backfill.ALL,
) -> dict[str, NodeList]:
    """Return the nodes of every job, empty for those that wait.

    A job overtakes one that waits only as `backfill` allows, or if that one could never fit.
    """
    previous = at_most_asked(jobs, previous)
    capacity = FreeCapacity(nodes)
    answer = dict.fromkeys(jobs, WAIT)
    # Jobs that cannot be moved count first, whatever their priority.
    allowance = Allowance.beside_fixed(jobs, previous)
    for job in in_order(jobs):
        key = job.key
        had = previous.get(key, WAIT)
        if not had or (job.preemptible and not allowance.allows(job, had)):
            continue
        if capacity.take_all(job, had):
            answer[key] = had
            if job.preemptible:
                allowance.take(job, had)
        elif not job.preemptible:
            allowance.take(job, had, -1)
    Preemption(capacity, answer, choose_node).by_priority(jobs, allowance)
    closed = admit_waiting(
        jobs, nodes, capacity, answer, allowance, choose_node=choose_node, backfill=backfill
    )
    grow_running(jobs, capacity, answer, allowance, choose_node=choose_node, closed=closed)
    return answer
