"""Pools: groups of jobs that compete for the same nodes, and the part that each can use.

A job can use the nodes that admit its pods and are large enough for one of them. Jobs without a
common node do not compete: their pools are decided one by one. Within a pool some jobs may be able
to use fewer nodes than others. The jobs that are confined to some nodes are bounded by the
capacity of these nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.resources import total
from di_operator.allocator.model.shared_nodes import Rows, joined
from di_operator.allocator.sizing.demand import Demand, Option


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Jobs that compete, in the order of their precedence, and the nodes that any of them can use.

    `bounds` are the nodes of each bound, by its name. Each has nodes of one kind.
    """

    demands: tuple[Demand, ...]
    rows: Rows
    bounds: Mapping[str, Rows]
    _draws: Mapping[Rows, tuple[str, ...]]

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of nodes that its jobs can use."""
        return sorted({kind for demand in self.demands for kind in demand.options})

    def draws(self, option: Option) -> tuple[str, ...]:
        """Return the bounds against which a job's allotment by an option counts."""
        return self._draws[option.rows]


def pools_of(demands: Sequence[Demand]) -> list[Pool]:
    """Return the pools, in the order of the first job of each."""
    where = joined(demand.rows for demand in demands)
    found: dict[Rows, list[Demand]] = {}
    for demand in demands:
        found.setdefault(where[demand.rows], []).append(demand)
    return [_pool(rows, members) for rows, members in found.items()]


def _pool(rows: Rows, demands: Sequence[Demand]) -> Pool:
    by_kind: dict[str, dict[Rows, None]] = {}
    for demand in demands:
        for kind, option in demand.options.items():
            by_kind.setdefault(kind, {})[option.rows] = None
    bounds: dict[str, Rows] = {}
    draws: dict[Rows, tuple[str, ...]] = {}
    for kind, found in by_kind.items():
        # Two that overlap are bounded by all nodes together, too.
        whole = reduce(frozenset.union, found)
        named = {
            f"{kind}/{number}": each for number, each in enumerate(dict.fromkeys((whole, *found)))
        }
        bounds |= named
        for each in found:
            draws[each] = tuple(name for name, within in named.items() if each <= within)
    return Pool(demands=tuple(demands), rows=rows, bounds=bounds, _draws=draws)


@dataclass(slots=True)
class PoolCapacity:
    """The amount of one resource in a pool, in thousandths of the base unit."""

    pool: Pool
    capacity: FreeCapacity
    resource: str
    _amounts: dict[Rows, int] = field(default_factory=dict)
    _fair: dict[Rows, float] = field(default_factory=dict)
    _crowds: Counter[int] = field(default_factory=Counter)

    def amount(self, rows: Rows) -> int:
        """Return the amount on these nodes together."""
        if rows not in self._amounts:
            self._amounts[rows] = self.capacity.amount(self.resource, rows)
        return self._amounts[rows]

    def by_bound(self) -> dict[str, float]:
        """Return the budget of each bound."""
        return {name: float(self.amount(rows)) for name, rows in self.pool.bounds.items()}

    def fair(self, demand: Demand) -> float:
        """Return a job's part if each node were divided equally among the jobs that can use it."""
        if not self._crowds:
            for rows, jobs in Counter(each.rows for each in self.pool.demands).items():
                self._crowds.update(dict.fromkeys(rows, jobs))
        if demand.rows not in self._fair:
            shared: dict[int, list[int]] = {}
            for row in demand.rows:
                shared.setdefault(self._crowds[row], []).append(row)
            self._fair[demand.rows] = sum(
                self.capacity.amount(self.resource, rows) / jobs
                for jobs, rows in sorted(shared.items())
            )
        return self._fair[demand.rows]


class Taken:
    """The usage of namespaces in pools that are already decided. It counts against their
    guarantees and quotas in the others.
    """

    def __init__(self) -> None:
        self._taken: dict[str, dict[str, int]] = {}

    def counted(self, pool: Pool) -> Pool:
        """Return the pool with the usage in other pools added to the accounts of its jobs."""
        if not self._taken:
            return pool
        return replace(pool, demands=tuple(map(self._counted, pool.demands)))

    def _counted(self, demand: Demand) -> Demand:
        job = demand.job
        if job.account is None or job.namespace not in self._taken:
            return demand
        taken = total((job.account.taken, self._taken[job.namespace]))
        return replace(demand, job=replace(job, account=replace(job.account, taken=taken)))

    def take(self, pool: Pool, chosen: Sequence[tuple[str, int]]) -> None:
        """Count the kind of nodes and the size that each job of a pool gets."""
        for demand, (kind, size) in zip(pool.demands, chosen, strict=True):
            if demand.job.account is not None and size:
                option = demand.options[kind]
                takes = option.takes(demand.job)[option.ladder.sizes.index(size)]
                before = self._taken.get(demand.job.namespace, {})
                amounts = {name: int(amount) for name, amount in takes.items()}
                self._taken[demand.job.namespace] = total((before, amounts))
