"""The policy `goodput`: share the cluster by measured progress (after Pollux, OSDI'21), without a
random search.

Every job has a curve: its speed by size. Sizes of the jobs that compete for nodes (`pools`) are
chosen together. The choice weighs their value to the cluster (`objective`) against their use of
the scarcest resource (`choose`). Then they are placed with as few moves as possible (`place`).
Where there are several kinds of nodes, a job has a curve on each (`kinds`), and its learners stay
on one (`choose_kinds`). Collectors follow their learners (`collectors`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

from di_operator.allocator.admission.by_priority import admit
from di_operator.allocator.admission.in_order import in_order, tightest
from di_operator.allocator.goodput.collecting import throughput
from di_operator.allocator.goodput.curves import Curve, Curves
from di_operator.allocator.goodput.kinds import Known, Ladder, known_speeds, scaled
from di_operator.allocator.goodput.objective import (
    Costs,
    Part,
    assumed_speeds,
    fair_speed,
    fair_values,
    short_first_values,
    speed_of_one,
)
from di_operator.allocator.goodput.sizes import Bounds, sizes
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.placement.place_learners import place
from di_operator.allocator.sharing.fair_shares import DEFAULT_AGEING, DEFAULT_SHARE, read_shares
from di_operator.allocator.sharing.queues import read_queues
from di_operator.allocator.sharing.quotas import Allowance
from di_operator.allocator.sizing.bids import make_bids, measured_room
from di_operator.allocator.sizing.choose import Offer, choose
from di_operator.allocator.sizing.choose_node_kinds import Choice, choose_kinds
from di_operator.allocator.sizing.choose_shares import choose_by_shares
from di_operator.allocator.sizing.demand import Demand, Option, quiet_seconds, ranks, scarcest_of
from di_operator.allocator.sizing.pools import Pool, PoolCapacity, Taken, pools_of
from di_operator.allocator.sizing.sized_plan import SizedPlan, running_in, stops_for_growth

_AHEAD: Final = 2
"""Plans that are made in advance, to leave out a stop that the next plan would undo."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """What one allocation is computed from; `fixed` are the answers of jobs of fixed size."""

    jobs: Mapping[str, JobInfo]
    nodes: Mapping[str, NodeInfo]
    previous: Mapping[str, NodeList]
    curves: Curves
    fixed: Mapping[str, NodeList]


class GoodputPolicy:
    """Sizes by measured progress; jobs that are not preemptible are admitted first, as by `fit`.

    Args:
        restart_seconds: how long a job stands still when its learners change, at least. One
            that reports a longer time to restore counts with that, or with half of
            horizon_seconds.
        horizon_seconds: how long a new size must pay for that; longer means more changes.
        growth: a job can grow to that many times the replicas it has measured. A job that has
            measured nothing can have one node.
        silence_seconds: a job that has run so long on the replicas a newcomer gets, without a
            report, counts as silent. It gets no more replicas than it asks for, and they are
            not taken to be of much use.
        decay: how much less a job counts the more it has had: with the power -decay of 1 + had
            / decay_after. Among jobs of unknown length, those that have just started are the
            likeliest to end soon. 0: all count the same.
        decay_after: replica-seconds, see `decay`.
        fairness: the power of a job's slow-down in the sum that is made small; 1 is the
            harmonic mean of Pollux, less leans towards the jobs that use a GPU best.
        priority_weight: how much more the same slow-down counts per step of priority.
        shares: weights of namespaces in the capacity of preemptible jobs (see `entitlements`);
            None: all jobs are equal, whatever their namespace.
        default_share: the weight of namespaces that `shares` does not name.
        ageing_seconds: the turns in which jobs that are larger than their namespace's share
            run.
        queues: weight, guarantee and quota of namespaces (see `queues`); with a weight or a
            guarantee, shares are dominant ones.

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
        queues: Mapping[str, Any] | None = None,
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
        self.queues = read_queues(queues)
        self._shares = read_shares(shares, default_share, ageing_seconds, self.queues)
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
        inputs = _Inputs(
            jobs=jobs,
            nodes=nodes,
            previous=previous,
            curves=curves,
            fixed=admit(rigid, nodes, previous, choose_node=tightest),
        )
        answer = self._weighed(inputs)
        for _ in range(_AHEAD):
            stopped = [key for key in jobs if previous.get(key) and not answer[key]]
            if not stopped:
                break
            following = self._weighed(replace(inputs, previous=answer))
            if not any(following[key] for key in stopped):
                break
            answer = following
        return answer

    def _weighed(self, inputs: _Inputs) -> dict[str, NodeList]:
        """Return the answer for all jobs; no job is stopped for the growth of others at a loss."""
        plan = self._sized(inputs)
        owner = {
            key: "" if self._shares is None else job.namespace for key, job in inputs.jobs.items()
        }
        if not (doubtful := stops_for_growth(plan, inputs.previous, owner)):
            return plan.answer
        other = self._sized(inputs, kept=running_in(doubtful, inputs.previous))
        # A stop has to gain more than its price, in each pool.
        refused = [
            pool
            for pool in doubtful
            if plan.worth(pool, other.answer, inputs.nodes)
            >= plan.worth(pool, plan.answer, inputs.nodes)
        ]
        if not refused:
            return plan.answer
        if len(refused) == len(doubtful):
            return other.answer
        return self._sized(inputs, kept=running_in(refused, inputs.previous)).answer

    def _sized(self, inputs: _Inputs, *, kept: Set[str] = frozenset()) -> SizedPlan:
        """Return a plan beside the jobs of fixed size; jobs of `kept` do not grow."""
        jobs, previous = inputs.jobs, inputs.previous
        capacity, fitting = _left_by(jobs, inputs.nodes, inputs.fixed)
        answer = dict.fromkeys(jobs, WAIT) | fitting
        allowance = Allowance()
        for key in inputs.fixed:
            allowance.take(jobs[key], answer[key])
        demands = self._demands(jobs, capacity, previous)
        demands = [each.not_above_present() if each.job.key in kept else each for each in demands]
        if not demands:
            return SizedPlan(answer=answer, pools=(), offers={})
        pools = pools_of(demands)
        chosen, offers = self._choose(demands, pools, capacity, inputs.curves, allowance)
        answer |= place(demands, chosen, capacity, previous, allowance)
        return SizedPlan(answer=answer, pools=pools, offers=offers)

    def _demands(
        self,
        jobs: Mapping[str, JobInfo],
        capacity: FreeCapacity,
        previous: Mapping[str, NodeList],
    ) -> list[Demand]:
        return [
            demand
            for job in in_order(jobs)
            if job.preemptible
            and (demand := self._demand(job, capacity, previous.get(job.key, WAIT)))
        ]

    def _demand(self, job: JobInfo, capacity: FreeCapacity, had: NodeList) -> Demand | None:
        """Return the sizes a job may be offered; None: not even its minimum fits."""
        scaled_task = job.scaled
        tasks = {kind: capacity.on_kind(scaled_task, kind) for kind in capacity.kinds}
        # On nodes of another size than the most common the placement finds what fits.
        per_node = {kind: capacity.per_node(task) for kind, task in tasks.items()}
        beginning = max(min(filter(None, per_node.values()), default=0), scaled_task.minimum)
        # Not by its present size: otherwise its size would decide whether it is silent, and that
        # again its size.
        silent = not job.reports and job.attained > self._silence * beginning
        options: dict[str, Option] = {}
        held = had.task(scaled_task.name)
        for kind, task in tasks.items():
            if not per_node[kind]:
                continue
            maximum = min(task.maximum, sum(capacity.empty_slots(task)))
            present = len(held) if capacity.are_of(held, kind) else 0
            limit = max(per_node[kind], task.minimum, present, int(self._growth * job.explored))
            if silent:
                maximum = limit = min(task.replicas, maximum)
            found = sizes(
                Bounds(
                    per_node=per_node[kind],
                    minimum=task.minimum,
                    maximum=maximum,
                    unit=task.unit,
                ),
                also=maximum if silent else present,
            )
            if len(found) > 1:
                options[kind] = Option(
                    task=task,
                    rows=capacity.rows(task),
                    ladder=Ladder(kind=kind, sizes=found, per_node=per_node[kind]),
                    present=present,
                    offered=sum(size <= limit for size in found),
                )
        if not options:
            return None
        return Demand(job=job, task=scaled_task, options=options, silent=silent)

    def _choose(
        self,
        demands: Sequence[Demand],
        pools: Sequence[Pool],
        capacity: FreeCapacity,
        curves: Curves,
        allowance: Allowance,
    ) -> tuple[list[tuple[str, int]], dict[str, dict[str, Offer]]]:
        """Return the kind of nodes and the size of each job, and the offers of all jobs."""
        speeds = {
            demand.job.key: speed
            for demand, speed in zip(demands, _speeds(demands, curves), strict=True)
        }
        taken = Taken()
        found: dict[str, tuple[str, int]] = {}
        offers: dict[str, dict[str, Offer]] = {}
        for pool in pools:
            counted = taken.counted(pool)
            chosen, offered = self._choose_in(
                counted, [speeds[each.job.key] for each in counted.demands], capacity, allowance
            )
            offers |= zip([each.job.key for each in counted.demands], offered, strict=True)
            found |= {
                demand.job.key: picked
                for demand, picked in zip(counted.demands, chosen, strict=True)
            }
            taken.take(counted, chosen)
        return [found[demand.job.key] for demand in demands], offers

    def _choose_in(
        self,
        pool: Pool,
        speeds: Sequence[Mapping[str, Curve]],
        capacity: FreeCapacity,
        allowance: Allowance,
    ) -> tuple[list[tuple[str, int]], list[dict[str, Offer]]]:
        """Return the kind of nodes and the size of each job of one pool, and their offers."""
        demands, kinds = pool.demands, pool.kinds
        scarce = scarcest_of(demands, capacity, pool.rows)
        available = PoolCapacity(pool, capacity, scarce)
        parts = [d.parts(speed, available.amount) for d, speed in zip(demands, speeds, strict=True)]
        weights = ranks(demands, parts)
        quiet = 0.0 if weights is None else quiet_seconds(demands, speeds)
        offers = []
        for demand, speed, part in zip(demands, speeds, parts, strict=True):
            if weights is not None:
                weight = weights[demand.job.key]
                values = self._short_first(demand, speed, part, quiet)
            else:
                weight = (1 + demand.job.attained / self._decay_after) ** -self._decay
                each = max(1, demand.task.resources.get(scarce, 0))
                fair = available.fair(demand) / each
                values = self._fair(demand, speed, part, fair)
            self._charge_stop(demand, values, quiet)
            weight *= self._priority_weight**demand.job.priority
            offers.append(
                {
                    kind: Offer(
                        option.costs(demand.job, scarce)[: option.offered],
                        [weight * v for v in values[kind][: option.offered]],
                    )
                    for kind, option in demand.options.items()
                }
            )
        if len(kinds) == 1:
            (kind,) = kinds
            options = [demand.options[kind] for demand in demands]
            sole = [offer[kind] for offer in offers]
            bounds = available.by_bound()
            is_bounded = any(demand.job.account for demand in demands) or len(bounds) > 1
            if self._shares is None and not is_bounded:
                picked = choose(sole, float(available.amount(pool.rows)))
            else:
                room = measured_room(pool, capacity, scarce, self._shares)
                draws = [pool.draws(option) for option in options]
                picked = choose_by_shares(
                    make_bids(demands, options, sole, room, self._shares, draws=draws),
                    [bisect_right(each.ladder.sizes, each.present) - 1 for each in options],
                    room,
                    self._shares,
                    {demand.job.namespace: allowance.left(demand.job) for demand in demands},
                    bounds=bounds if len(bounds) > 1 else {},
                )
            chosen = [Choice(kind, at) for at in picked]
        else:
            chosen = choose_kinds(
                offers,
                available.by_bound(),
                [
                    {kind: pool.draws(option) for kind, option in demand.options.items()}
                    for demand in demands
                ],
            )
        picks = [
            (kind, demand.options[kind].ladder.sizes[at])
            for demand, (kind, at) in zip(demands, chosen, strict=True)
        ]
        return picks, offers

    def _charge_stop(self, demand: Demand, values: Mapping[str, list[float]], quiet: float) -> None:
        """Charge a running job with the cost of a stop, on every kind of nodes alike."""
        costs = self._costs.restoring(demand.job.restoring).lasting(quiet)
        part = costs.of_stop(demand.job.unsaved)
        gained = max(
            values[kind][option.ladder.sizes.index(option.present)] - values[kind][0]
            if option.present in option.ladder.sizes
            else 0.0
            for kind, option in demand.options.items()
        )
        for each in values.values():
            each[0] -= part * max(0.0, gained)

    def _short_first(
        self,
        demand: Demand,
        speeds: Mapping[str, Curve],
        parts: Sequence[Part],
        quiet: float,
    ) -> dict[str, list[float]]:
        one = speed_of_one(parts)
        return {
            kind: short_first_values(
                option.ladder.sizes,
                speeds[kind],
                one=one,
                present=option.present,
                costs=self._costs.restoring(demand.job.restoring).lasting(quiet),
            )
            for kind, option in demand.options.items()
        }

    def _fair(
        self, demand: Demand, speeds: Mapping[str, Curve], parts: Sequence[Part], fair: float
    ) -> dict[str, list[float]]:
        share = fair_speed(parts, fair=fair)
        # Whether it can have as little as its share does not depend on the kind it is offered.
        smallest = min(option.ladder.sizes[1] for option in demand.options.values())
        return {
            kind: fair_values(
                option.ladder.sizes,
                speeds[kind],
                share=share,
                takes_turns=smallest > max(1, fair),
                fairness=self._fairness,
                present=option.present,
                costs=self._costs.restoring(demand.job.restoring),
            )
            for kind, option in demand.options.items()
        }


def _left_by(
    jobs: Mapping[str, JobInfo], nodes: Mapping[str, NodeInfo], fixed: Mapping[str, NodeList]
) -> tuple[FreeCapacity, dict[str, NodeList]]:
    """Return the capacity that jobs placed as a whole leave, and the placements that fit."""
    capacity = FreeCapacity(nodes)
    fitting = {key: placed for key, placed in fixed.items() if capacity.take_all(jobs[key], placed)}
    capacity.settle()
    return capacity, fitting


def _speeds(demands: Sequence[Demand], curves: Curves) -> list[dict[str, Curve]]:
    """Return the speeds of each job by kind of node and size: known ones, or assumed ones."""
    known, ratios = known_speeds(
        {
            demand.job.key: Known(
                namespace=demand.job.namespace,
                anywhere=demand.job.model,
                by_kind=demand.job.by_kind,
                ladders=[option.ladder for option in demand.options.values()],
            )
            for demand in demands
            if demand.job.reports
        },
        curves,
    )
    answer = []
    for demand in demands:
        found: dict[str, Curve] = {}
        first = next(iter(demand.options))
        for kind, option in demand.options.items():
            speed = known.get((demand.job.key, kind))
            if speed is None:
                assumed = assumed_speeds(option.ladder.sizes, silent=demand.silent)
                speed = scaled(assumed, ratios.get((first, kind), 1.0))
            collecting, collectors = demand.job.collecting, demand.job.collectors
            if collecting is not None and collectors:
                most = sum([collector.maximum for collector in collectors])
                speed = tuple(throughput(collecting, s, most) for s in speed)
            found[kind] = speed
        answer.append(found)
    return answer
