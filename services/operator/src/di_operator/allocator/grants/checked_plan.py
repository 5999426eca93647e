"""The checked difference between a policy's answer and what runs; a policy can be a user's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.placement.replica_indexes import with_indexes_kept
from di_operator.allocator.sharing.quotas import Allowance


class Change(StrEnum):
    """The effect of an answer on a job."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"
    """Its learners change: the whole job restarts from the last checkpoint."""
    SCALE = "scale"
    """Only tasks change whose replicas can come and go while the learners run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The nodes of every job, the changes, and the refused parts of an answer."""

    allocations: Mapping[str, NodeList]
    changes: Mapping[str, Change]
    refused: Mapping[str, str]
    """By job: why its part of the answer was rejected; the job keeps what it has."""


def make_plan(
    answer: Mapping[str, NodeList],
    jobs: Mapping[str, JobInfo],
    nodes: Mapping[str, NodeInfo],
    previous: Mapping[str, NodeList],
) -> Plan:
    """Check an answer and compare it with what runs.

    A job whose part is wrong keeps what it has, if that still fits beside the others, or else
    waits. Jobs that are not in the answer keep what they have. The plan gives no namespace more
    than its quota, except for jobs that are never moved. No answer, however wrong, raises here.
    """
    capacity, allowance = FreeCapacity(nodes), Allowance.beside_fixed(jobs, previous)
    refused: dict[str, str] = {}
    wanted: dict[str, NodeList] = {}
    for key, job in jobs.items():
        had = previous.get(key, WAIT)
        wants = answer.get(key, had)
        problem = find_problem(job, wants, had, nodes)
        if problem:
            refused[key] = problem
            wants = had
        wanted[key] = with_indexes_kept(job, had, wants)
    allocations: dict[str, NodeList] = {}
    # Unchanged jobs go first: a new job must not displace a running one because of an error of the
    # policy.
    for key in sorted(jobs, key=lambda key: (wanted[key] != previous.get(key, WAIT), key)):
        job, had = jobs[key], previous.get(key, WAIT)
        bounded = job.account is not None
        if bounded and not job.preemptible:
            allowance.take(job, had, -1)
        wants = allowance.cut(job, wanted[key], had) if bounded else wanted[key]
        if not capacity.take_all(job, wants):
            refused.setdefault(key, "its nodes have not that much room")
            wants = allowance.cut(job, had, had)
            wants = wants if wants and capacity.take_all(job, wants) else WAIT
        if bounded:
            allowance.take(job, wants)
        allocations[key] = wants
    changes = {
        key: change
        for key, job in jobs.items()
        if (change := change_of(job, previous.get(key, WAIT), allocations[key]))
    }
    return Plan(allocations=allocations, changes=changes, refused=refused)


def find_problem(
    job: JobInfo, wants: NodeList, had: NodeList, nodes: Mapping[str, NodeInfo]
) -> str | None:
    """Return what is wrong with a job's part of an answer, free capacity aside; None: nothing."""
    if not job.preemptible and had and wants != had:
        return "it is not preemptible, and would be moved"
    if not wants:
        return None
    known = {task.name for task in job.tasks}
    problems = [f"it has no task {name}" for name, _ in wants.tasks if name not in known]
    if wants != had:
        problems += [f"there is no node {name}" for name in sorted({*wants} - {*nodes})]
    for task in job.tasks:
        count = len(wants.task(task.name))
        low, high = (
            (task.minimum, task.maximum) if job.preemptible else (task.replicas, task.replicas)
        )
        if not low <= count <= high:
            problems.append(f"task {task.name}: {count} is not within {low}..{high}")
        elif count % task.unit:
            problems.append(f"task {task.name}: {count} is not a multiple of {task.unit}")
    return problems[0] if problems else None


def change_of(job: JobInfo, before: NodeList, after: NodeList) -> Change | None:
    """Return what a change of nodes means for the job; None: nothing changes."""
    if before == after:
        return None
    if sorted(before) == sorted(after) and all(
        sorted(before.task(task.name)) == sorted(after.task(task.name)) for task in job.tasks
    ):
        return None
    if not before:
        return Change.START
    if not after:
        return Change.STOP
    touched = any(
        sorted(before.task(task.name)) != sorted(after.task(task.name))
        for task in job.tasks
        if not task.comes_and_goes
    )
    return Change.RESTART if touched else Change.SCALE
