"""Placement of learners of chosen sizes, and of the other tasks beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList, TaskInfo
from di_operator.allocator.placement.place_jobs import PlacementRequest, Placer
from di_operator.allocator.sharing.quotas import Allowance
from di_operator.allocator.sizing.collectors import JobPlacement, add_collectors, place_others
from di_operator.allocator.sizing.demand import Demand


def place(
    demands: Sequence[Demand],
    chosen: Sequence[tuple[str, int]],
    capacity: FreeCapacity,
    previous: Mapping[str, NodeList],
    allowance: Allowance,
) -> dict[str, NodeList]:
    """Return the nodes of each job with its chosen number of learners on a kind of nodes.

    `allowance` counts what is fixed; within it the other tasks grow beyond their least.
    """
    placer = Placer(capacity)
    requests = [
        _request(demand, kind, size, previous.get(demand.job.key, WAIT))
        for demand, (kind, size) in zip(demands, chosen, strict=True)
    ]
    _place_learners(placer, requests, _others_of_who_stays(demands, requests, capacity, previous))
    for demand, request, (kind, _) in zip(demands, requests, chosen, strict=True):
        if not request.count:
            continue
        # The capacity is free, but in pieces that are too small: the next smaller size that fits.
        for size in reversed(demand.options[kind].ladder.sizes[1:]):
            if request.key in placer.placed:
                break
            if size < request.count:
                placer.place([replace(request, count=size)])
    jobs = {demand.job.key: demand.job for demand in demands}
    answer: dict[str, NodeList] = {}
    placements: list[JobPlacement] = []
    for demand, request, (kind, _) in zip(demands, requests, chosen, strict=True):
        job, learners = demand.job, placer.nodes(demand.job.key)
        if not learners:
            answer[job.key] = WAIT
        elif len(job.tasks) == 1:
            answer[job.key] = NodeList(((demand.task.name, learners),))
        elif placement := _with_others(
            placer, job, request, demand.options[kind].ladder.sizes, previous.get(job.key, WAIT)
        ):
            placements.append(placement)
        else:
            answer[job.key] = WAIT
    for key, placed in answer.items():
        allowance.take(jobs[key], placed)
    add_collectors(capacity, placements, allowance)
    return answer | {placement.job.key: placement.node_list(capacity) for placement in placements}


def _with_others(
    placer: Placer, job: JobInfo, request: PlacementRequest, sizes: Sequence[int], had: NodeList
) -> JobPlacement | None:
    """Return a job with its other tasks beside its learners, or beside fewer of them if these leave
    the others no node; None if it is taken out.
    """
    most = len(placer.nodes(job.key))
    for size in (most, *(size for size in reversed(sizes[1:]) if size < most)):
        if size < most and not placer.place_beside(replace(request, count=size)):
            continue
        if placement := place_others(placer.capacity, job, placer.nodes(job.key), had):
            return placement
        placer.release(job.key)
    return None


def _others_of_who_stays(
    demands: Sequence[Demand],
    requests: Sequence[PlacementRequest],
    capacity: FreeCapacity,
    previous: Mapping[str, NodeList],
) -> list[tuple[TaskInfo, int]]:
    """Return task and row of each collector whose job keeps its number of learners."""
    return [
        (task, capacity.index[node])
        for demand, request in zip(demands, requests, strict=True)
        if request.count and request.count == len(request.current)
        for task in demand.job.tasks
        if task is not demand.task
        for node in previous[request.key].task(task.name)
        if node in capacity.index
    ]


def _place_learners(
    placer: Placer, requests: Sequence[PlacementRequest], others: Sequence[tuple[TaskInfo, int]]
) -> None:
    """Place the learners beside the present collectors, or else where these have to make way."""
    for task, row in others:
        placer.capacity.take(task, row)
    placer.place(requests)
    for task, row in others:
        placer.capacity.take(task, row, -1)
    if all(map(placer.is_satisfied, requests)):
        return
    for key in tuple(placer.placed):
        placer.release(key)
    placer.place(requests)


def _request(demand: Demand, kind: str, size: int, had: NodeList) -> PlacementRequest:
    option = demand.options.get(kind)
    if option is None:
        return PlacementRequest(key=demand.job.key, task=demand.task, count=0)
    return PlacementRequest(
        key=demand.job.key,
        task=option.task,
        count=size,
        # A job that changes to another kind of nodes keeps no node.
        current=had.task(option.task.name) if option.present else (),
    )
