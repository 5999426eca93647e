"""The shards of one data set: which are done, which workers have, and which come next.

A table covers all epochs. A shard's index counts on through the epochs, and the shards are given
out in that order, so all that was given out is known by one number. A worker that asks says what it
has done, and what it still holds. A shard that was given to it and is neither was in a response
that did not arrive, and is given to it again. So a request that is repeated changes nothing.

While no worker fails, each shard is done exactly once. A shard of a worker that is gone, or that
took longer than its lease, is given to another worker: it is done at least once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from di_server.jobs.shards.order import shard_at

MAX_RECORDS: Final = 10**12
MAX_EPOCHS: Final = 10**6
MAX_AT_ONCE: Final = 256
"""Maximum number of shards that a worker holds."""
MAX_UNDONE: Final = 100_000
"""Maximum number of shards that were given out and are not done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The data set as all workers declare it, and how it is divided."""

    size: int
    """Number of its records."""
    shard_size: int
    epochs: int
    shuffle: bool
    seed: int
    lease_seconds: int
    """How long a worker has for a shard, from its last request on."""
    records: str = ""
    """Digest of the records' names; empty for numbered records."""

    @property
    def per_epoch(self) -> int:
        """Return the number of shards in an epoch."""
        return -(-self.size // self.shard_size)

    @property
    def total(self) -> int:
        """Return the number of shards in all epochs."""
        return self.per_epoch * self.epochs


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Records of one epoch, from `start` to before `end`."""

    index: int
    epoch: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The shards of one worker."""

    shards: frozenset[int]
    until: datetime
    pod: str = ""
    """UID of its pod; empty: unknown."""
    first: int | None = field(init=False)
    """The lowest of its shards."""

    def __post_init__(self) -> None:
        # Once for each lease: a table of a thousand workers is written at each of their requests.
        object.__setattr__(self, "first", min(self.shards, default=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request of a worker.

    Attributes:
        worker: its name, which no other worker has, nor an earlier process of its pod.
        generation: of the position that its indexes are from; None: it has none yet.
        done: the shards that it has done.
        holds: the shards that it has, and has not done yet.
        number: how many more it wants.
        leaves: whether it ends: what it has not done is given to others.
    """

    worker: str
    pod: str = ""
    generation: int | None = None
    done: frozenset[int] = frozenset()
    holds: frozenset[int] = frozenset()
    number: int = 1
    leaves: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The state of one data set's shards.

    Attributes:
        generation: number of the position: a restored position is a later one.
        after: the lowest index that was never given out.
        again: given out before, and to be given out again.
        leases: by worker.
        under_way: the number of shards that workers have; counted if it is not given.
    """

    plan: Plan
    generation: int = 0
    after: int = 0
    again: frozenset[int] = frozenset()
    leases: Mapping[str, Lease] = field(default_factory=dict)
    under_way: int = -1

    def __post_init__(self) -> None:
        if self.under_way < 0:
            found = sum(len(lease.shards) for lease in self.leases.values())
            object.__setattr__(self, "under_way", found)

    @property
    def done(self) -> int:
        """Return the number of shards that are done, of all epochs."""
        return self.after - len(self.again) - self.under_way

    @property
    def is_finished(self) -> bool:
        """Return whether every shard of every epoch is done."""
        return self.done == self.plan.total

    @property
    def epoch(self) -> int:
        """Return the epoch of the first shard that is not done; the last one at the end."""
        # Without a union of all shards, of which a thousand workers can have a hundred thousand.
        held = (lease.first for lease in self.leases.values() if lease.first is not None)
        first = min((*held, *self.again), default=self.after)
        return min(first, self.plan.total - 1) // self.plan.per_epoch

    @property
    def undone(self) -> frozenset[int]:
        """Return the shards that were given out and are not done: what a checkpoint has to
        remember beside `after`.
        """
        return self.again.union(*(lease.shards for lease in self.leases.values()))

    def shard(self, index: int) -> Shard:
        """Return the records of a shard."""
        plan = self.plan
        epoch, place = divmod(index, plan.per_epoch)
        if plan.shuffle:
            place = shard_at(place, count=plan.per_epoch, seed=plan.seed, epoch=epoch)
        start = place * plan.shard_size
        return Shard(
            index=index, epoch=epoch, start=start, end=min(start + plan.shard_size, plan.size)
        )

    def reclaim(self, now: datetime, is_gone: Callable[[Lease], bool]) -> Table:
        """Return the table without the leases that are over, or whose worker is gone."""
        over = {
            worker: lease
            for worker, lease in self.leases.items()
            if lease.until <= now or is_gone(lease)
        }
        if not over:
            return self
        return replace(
            self,
            again=self.again.union(*(lease.shards for lease in over.values())),
            leases={each: lease for each, lease in self.leases.items() if each not in over},
            under_way=self.under_way - sum(len(lease.shards) for lease in over.values()),
        )

    def serve(self, ask: Ask, now: datetime) -> tuple[Table, tuple[int, ...]]:
        """Return the table after a request, and the shards that it gives the worker."""
        is_current = ask.generation in (None, self.generation)
        done, holds = (ask.done, ask.holds) if is_current else (frozenset(), frozenset())
        lease = self.leases.get(ask.worker)
        before = lease.shards if lease is not None else frozenset[int]()
        own = before - done
        of_others = self.under_way - len(before)
        # A worker that was late has done its shard all the same, unless another one has it by now.
        again = self.again - done
        others = {**self.leases}
        others.pop(ask.worker, None)
        if ask.leaves:
            return replace(self, again=again | own, leases=others, under_way=of_others), ()
        lost = sorted(own - holds)
        wanted = max(0, min(ask.number, MAX_AT_ONCE - len(own)) - len(lost))
        returned = sorted(again)[:wanted]
        undone = len(again) + len(own) + of_others
        more = max(0, min(wanted - len(returned), MAX_UNDONE - undone))
        fresh = range(self.after, min(self.after + more, self.plan.total))
        given = (*lost, *returned, *fresh)
        if shards := own.union(given):
            until = now + timedelta(seconds=self.plan.lease_seconds)
            others[ask.worker] = Lease(shards=shards, until=until, pod=ask.pod)
        table = replace(
            self,
            after=self.after + len(fresh),
            again=again.difference(returned),
            leases=others,
            under_way=of_others + len(shards),
        )
        return table, given

    def restored(self, after: int, again: Iterable[int]) -> Table:
        """Return the table at the position of a checkpoint: no worker has a shard."""
        return replace(
            self,
            generation=self.generation + 1,
            after=after,
            again=frozenset(again),
            leases={},
            under_way=0,
        )

    def slow_workers(self, now: datetime, most: int) -> tuple[str, ...]:
        """Return the workers that have used up more than half of their lease, slowest first."""
        half = timedelta(seconds=self.plan.lease_seconds / 2)
        late = [each for each in self.leases.items() if each[1].until - now < half]
        late.sort(key=lambda each: (each[1].until, each[0]))
        return tuple(islice((worker for worker, _ in late), most))
