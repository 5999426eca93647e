"""Share the cluster by measured progress (after Pollux, OSDI'21), without a random search.

Every job has a curve: its speed by size. Sizes are chosen together, by what they are worth to the
cluster (`objective`) and what they cost of its scarcest resource (`choose`), then placed with as
few moves as possible (`place`). Collectors follow their learners (`collectors`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from di_operator.allocator.admit import admit, in_order, tightest
from di_operator.allocator.choose import Offer
from di_operator.allocator.choose_shares import choose_by_shares
from di_operator.allocator.collectors import JobPlacement, add_collectors, place_others
from di_operator.allocator.entitlements import DEFAULT_AGEING, DEFAULT_SHARE, read_shares
from di_operator.allocator.free_capacity import FreeCapacity
from di_operator.allocator.goodput.collecting import throughput
from di_operator.allocator.goodput.curves import Curve, Curves, Question
from di_operator.allocator.goodput.objective import (
    Costs,
    assumed_speeds,
    fair_values,
    short_first_values,
    short_first_weights,
)
from di_operator.allocator.goodput.sizes import Bounds, sizes
from di_operator.allocator.job import WAIT, JobInfo, NodeList, TaskInfo
from di_operator.allocator.node import NodeInfo
from di_operator.allocator.place import PlacementRequest, Placer
from di_operator.allocator.resources import total


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demand:
    """A job, the task whose size is chosen, and the sizes to choose from."""

    job: JobInfo
    task: TaskInfo
    per_node: int
    sizes: tuple[int, ...]
    present: int
    offered: int
    """So many of the sizes may be taken now; the larger ones are for later."""
    silent: bool
    """It has had its time to report, and has not."""


class GoodputPolicy:
    """Sizes by measured progress; jobs that are not preemptible are admitted first, as by `fit`.

    Args:
        restart_seconds: how long a job stands still when its learners change.
        horizon_seconds: how long a new size must pay for that; longer means more changes.
        growth: a job may grow to that many times the replicas it has measured. A job that has
            measured nothing may have one node.
        silence_seconds: a job that has run so long on the replicas a newcomer gets, without a
            report, counts as silent: it gets no more replicas than it asks for, and they are not
            taken to be of much use.
        decay: how much less a job counts the more it has had: with the power -decay of
            1 + had / decay_after. Of jobs whose length nobody knows those that have just begun
            are the likeliest to end soon. 0: all count the same.
        decay_after: replica-seconds, see `decay`.
        fairness: the power of a job's slow-down in the sum that is made small; 1 is the harmonic
            mean of Pollux, less leans towards the jobs that use a GPU best.
        priority_weight: how much more the same slow-down counts per step of priority.
        shares: weights of namespaces in the room of preemptible jobs (see `entitlements`); None:
            all jobs are equal, whosever they are.
        default_share: the weight of namespaces that `shares` does not name.
        ageing_seconds: the slots in which jobs that are larger than their namespace's part take
            turns with the others.

    Raises ValueError for arguments out of range.
    """

    def __init__(
        self,
        *,
        restart_seconds: float = 30.0,
        horizon_seconds: float = 120.0,
        growth: float = 4.0,
        decay: float = 0.5,
        decay_after: float = 3600.0,
        fairness: float = 0.25,
        silence_seconds: float = 600.0,
        priority_weight: float = 4.0,
        shares: Mapping[str, float] | None = None,
        default_share: float = DEFAULT_SHARE,
        ageing_seconds: float = DEFAULT_AGEING,
    ) -> None:
        if not 0 <= restart_seconds < horizon_seconds:
            raise ValueError("restart_seconds must be at least 0 and less than horizon_seconds")
        if not growth > 1:
            raise ValueError("growth must be more than 1")
        if not decay >= 0 or not decay_after > 0:
            raise ValueError("decay must be at least 0, and decay_after more than 0")
        if not fairness > 0:
            raise ValueError("fairness must be more than 0")
        if not silence_seconds > 0:
            raise ValueError("silence_seconds must be more than 0")
        if not priority_weight >= 1:
            raise ValueError("priority_weight must be at least 1")
        self._costs = Costs(restart=restart_seconds, horizon=horizon_seconds)
        self._growth = growth
        self._decay = decay
        self._decay_after = decay_after
        self._fairness = fairness
        self._silence = silence_seconds
        self._priority_weight = priority_weight
        self._shares = read_shares(shares, default_share, ageing_seconds)
        self._curves = Curves()

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        """Start a job on what is free, at most one node until it has reported."""
        return self._optimize({job.key: job}, nodes, {}, Curves())[job.key]

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        """Reconsider the sizes of all preemptible jobs."""
        return self._optimize(jobs, nodes, previous, self._curves)

    def _optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
        curves: Curves,
    ) -> dict[str, NodeList]:
        rigid = {key: job for key, job in jobs.items() if not job.preemptible}
        answer = dict.fromkeys(jobs, WAIT)
        capacity = FreeCapacity(nodes)
        for key, placed in admit(rigid, nodes, previous, choose_node=tightest).items():
            if capacity.take_all(rigid[key], placed):
                answer[key] = placed
        capacity.settle()
        demands = [
            demand
            for job in in_order(jobs)
            if job.preemptible
            and (demand := self._demand(job, capacity, previous.get(job.key, WAIT)))
        ]
        if demands:
            chosen = self._choose(demands, capacity, curves)
            answer |= _place(demands, chosen, capacity, previous)
        return answer

    def _demand(self, job: JobInfo, capacity: FreeCapacity, had: NodeList) -> _Demand | None:
        """Return what the job may be offered; None: there is no room even for its minimum."""
        task = job.scaled
        # On nodes of another kind than the most common the placement finds what fits.
        per_node = capacity.per_node(task)
        if not per_node:
            return None
        maximum = min(task.maximum, sum(capacity.empty_slots(task)))
        present = len(had.task(task.name))
        beginning = max(per_node, task.minimum)
        # Not by what it has at present: else its size decided whether it is silent, and that again
        # its size.
        silent = job.model is None and job.attained > self._silence * beginning
        limit = max(beginning, present, int(self._growth * job.explored))
        if silent:
            maximum = limit = min(task.replicas, maximum)
        ladder = sizes(
            Bounds(per_node=per_node, minimum=task.minimum, maximum=maximum),
            also=maximum if silent else present,
        )
        if len(ladder) == 1:
            return None
        return _Demand(
            job=job,
            task=task,
            per_node=per_node,
            sizes=ladder,
            present=present,
            offered=sum(size <= limit for size in ladder),
            silent=silent,
        )

    def _choose(
        self, demands: Sequence[_Demand], capacity: FreeCapacity, curves: Curves
    ) -> list[int]:
        """Return the size of each job."""
        speeds = self._speeds(demands, curves)
        scarce, amount = _scarcest(demands, capacity)
        ranks = _ranks(demands, speeds)
        offers = []
        for demand, speed in zip(demands, speeds, strict=True):
            if ranks is not None:
                weight = ranks[demand.job.key]
                values = short_first_values(
                    demand.sizes, speed, present=demand.present, costs=self._costs
                )
            else:
                weight = (1 + demand.job.attained / self._decay_after) ** -self._decay
                each = max(1, demand.task.resources.get(scarce, 0))
                values = fair_values(
                    demand.sizes,
                    speed,
                    fair=amount / len(demands) / each,
                    fairness=self._fairness,
                    present=demand.present,
                    costs=self._costs,
                )
            weight *= self._priority_weight**demand.job.priority
            n = demand.offered
            offers.append(Offer(_costs(demand, scarce)[:n], [weight * v for v in values[:n]]))
        picked = choose_by_shares(
            offers,
            [demand.job for demand in demands],
            [bisect_right(demand.sizes, demand.present) - 1 for demand in demands],
            float(amount),
            self._shares,
        )
        return [demand.sizes[at] for demand, at in zip(demands, picked, strict=True)]

    def _speeds(self, demands: Sequence[_Demand], curves: Curves) -> list[Curve]:
        known = curves.ask(
            {
                d.job.key: Question(model=d.job.model, sizes=d.sizes, per_node=d.per_node)
                for d in demands
                if d.job.model is not None
            }
        )
        speeds = []
        for demand in demands:
            speed = known.get(demand.job.key) or assumed_speeds(demand.sizes, silent=demand.silent)
            collecting, collector = demand.job.collecting, demand.job.collector
            if collecting is not None and collector is not None:
                speed = tuple(throughput(collecting, s, collector.maximum) for s in speed)
            speeds.append(speed)
        return speeds


def _ranks(demands: Sequence[_Demand], speeds: Sequence[Curve]) -> dict[str, float] | None:
    """Weights by the work left, if at least half of the jobs that report say how much that is."""
    reported = [demand.job for demand in demands if demand.job.model is not None]
    saying = sum(job.remaining is not None for job in reported)
    if not saying or 2 * saying < len(reported):
        return None
    return short_first_weights(
        {d.job.key: _left(d, speed) for d, speed in zip(demands, speeds, strict=True)}
    )


def _left(demand: _Demand, speed: Curve) -> float:
    """Seconds that the job would still take on one replica."""
    job = demand.job
    if job.model is not None and job.remaining is not None and speed[1]:
        return job.remaining / speed[1] * demand.sizes[1]
    # As much as it has had: the best guess about work whose length is spread over orders of
    # magnitude. Who has just begun may be the shortest, and is tried.
    return job.attained


def _costs(demand: _Demand, resource: str) -> list[float]:
    """What each size takes of one resource, the least of the other tasks included."""
    each = demand.task.resources.get(resource, 0)
    others = sum(
        task.minimum * task.resources.get(resource, 0)
        for task in demand.job.tasks
        if task is not demand.task
    )
    return [float(size * each + others) if size else 0.0 for size in demand.sizes]


def _scarcest(demands: Sequence[_Demand], capacity: FreeCapacity) -> tuple[str, int]:
    """The resource that would run out first, and how much of it there is."""
    wanted: Counter[str] = Counter()
    for demand in demands:
        for name, amount in demand.task.resources.items():
            wanted[name] += demand.sizes[-1] * amount
    free = total(capacity.free)
    # By name among equals, so that the order of requests does not matter.
    scarce = max(sorted(wanted), key=lambda name: wanted[name] / max(free.get(name, 0), 1))
    return scarce, free.get(scarce, 0)


def _others_of_who_stays(
    demands: Sequence[_Demand],
    requests: Sequence[PlacementRequest],
    capacity: FreeCapacity,
    previous: Mapping[str, NodeList],
) -> list[tuple[TaskInfo, int]]:
    """Task and row of each collector whose job keeps its number of learners."""
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
    """Place the learners beside the collectors there are, or else where these have to make way."""
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


def _place(
    demands: Sequence[_Demand],
    chosen: Sequence[int],
    capacity: FreeCapacity,
    previous: Mapping[str, NodeList],
) -> dict[str, NodeList]:
    placer = Placer(capacity)
    requests = [
        PlacementRequest(
            key=demand.job.key,
            task=demand.task,
            count=size,
            current=previous.get(demand.job.key, WAIT).task(demand.task.name),
        )
        for demand, size in zip(demands, chosen, strict=True)
    ]
    _place_learners(placer, requests, _others_of_who_stays(demands, requests, capacity, previous))
    for demand, request in zip(demands, requests, strict=True):
        # Room that is there, but in pieces too small: the next size that fits.
        for size in reversed(demand.sizes[1:]):
            if request.key in placer.placed or not request.count:
                break
            if size < request.count:
                placer.place([replace(request, count=size)])
    answer: dict[str, NodeList] = {}
    placements: list[JobPlacement] = []
    for demand in demands:
        job, learners = demand.job, placer.nodes(demand.job.key)
        if not learners:
            answer[job.key] = WAIT
        elif len(job.tasks) == 1:
            answer[job.key] = NodeList(((demand.task.name, learners),))
        elif placement := place_others(capacity, job, learners, previous.get(job.key, WAIT)):
            placements.append(placement)
        else:
            placer.release(job.key)
            answer[job.key] = WAIT
    add_collectors(capacity, placements)
    return answer | {placement.job.key: placement.node_list(capacity) for placement in placements}
