"""`di.shards`: iterate over the next records of a data set, together with the job's other pods."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any

from di_orchestrator.data_shards.requests import Local, Piece, Plan, Remote
from di_orchestrator.data_shards.saved import Saving, saved_position, writer
from di_orchestrator.data_shards.worker import Worker
from di_orchestrator.job import Job
from di_orchestrator.server.connect import connection


@dataclass(frozen=True)
class Shard:
    """Some records of one epoch; iterate over it for them.

    Attributes:
        index: counts the shards of all epochs in the order in which they are given out.
        epoch: from 0.
        records: numbers of the records, or their names if the data set has names.
    """

    index: int
    epoch: int
    records: Sequence[Any]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)


class Shards:
    """The shards of a data set for this process; use it as an iterator, and close it at the end.

    Of one process at a time: a process that was forked needs its own.
    """

    def __init__(
        self,
        name: str,
        worker: Worker,
        plan: Plan,
        *,
        names: Sequence[Any] | None = None,
        by_hand: bool = False,
    ) -> None:
        self._name = name
        self._worker = worker
        self._plan = plan
        self._names = names
        self._by_hand = by_hand
        self._last: int | None = None

    def __iter__(self) -> Iterator[Shard]:
        return self

    def __next__(self) -> Shard:
        if self._last is not None and not self._by_hand:
            self._worker.done(self._last)
        self._last = None
        piece = self._worker.next()
        if piece is None:
            self.close()
            raise StopIteration
        self._last = piece.index
        return Shard(piece.index, piece.epoch, self._records(piece))

    def __enter__(self) -> Shards:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def progress(self) -> tuple[int, int]:
        """Return how many shards are done, and how many there are, of all epochs and workers."""
        return self._worker.progress

    def done(self, shard: Shard) -> None:
        """Record that a shard is done, before the next one is requested."""
        self._worker.done(shard.index)

    def position(self) -> dict[str, Any]:
        """Return the position for a checkpoint, as JSON: what all workers have done so far."""
        return self._worker.position()

    def restore(self, position: Mapping[str, Any]) -> None:
        """Go on from a position, for all workers; call it in one of them."""
        self._last = None
        self._worker.restore(position)

    def saving(self, write: Callable[[Path], object]) -> Callable[[Path], None]:
        """Return a function for `Training.save` that saves the position with the checkpoint.

        Args:
            write: writes the checkpoint itself, as for `Training.save`.
        """

        def read() -> dict[str, Any]:
            return {"plan": self._plan.body(), **self.position()}

        return writer(write, self._name, read)

    def resume(self, run: Saving) -> None:
        """Go on from the position of the checkpoint that a training restores, for all workers; call
        it in the process that saves. At the first start it does nothing.

        Raises:
            CheckpointLost: the checkpoint was saved without a position.
            ValueError: its data set was divided in another way.
        """
        found = run.checkpoint.restore()
        if found is None:
            return
        position = saved_position(found, self._name)
        if (before := position.pop("plan")) != self._plan.body():
            raise ValueError(f"{found} has a position of {self._name} as {before}")
        self.restore(position)

    def close(self) -> None:
        """Give the shards that are not done to other workers, at once."""
        self._worker.close()

    def _records(self, piece: Piece) -> Sequence[Any]:
        numbers: Sequence[int] = range(piece.start, piece.end)
        if self._plan.shuffle:
            # By the same seed in every process, so that a shard is the same for each worker.
            numbers = list(numbers)
            Random(f"{self._plan.seed}/{piece.epoch}/{piece.start}").shuffle(numbers)
        names = self._names
        return numbers if names is None else [names[number] for number in numbers]


def shards(
    name: str,
    *,
    size: int | None = None,
    records: Sequence[str] | None = None,
    shard_size: int = 1,
    epochs: int = 1,
    shuffle: bool = False,
    seed: int = 0,
    lease_seconds: int = 60,
    by_hand: bool = False,
) -> Shards:
    """Return the shards of a data set, each of which one worker of the job gets.

    A shard is done when the next one is requested. The shard of a worker that is gone, or that took
    longer than its lease, is given to another one. So each record of an epoch is done at least
    once, and exactly once while no worker fails. The iterator ends when all shards of all workers
    are done. Outside a job this process gets all of them.

    Args:
        name: of the data set; all workers of the job give the same arguments for it.
        size: number of records; a shard has their numbers.
        records: names of the records, in place of `size`.
        shard_size: records of a shard.
        shuffle: whether each epoch has an order of its own, by the seed.
        lease_seconds: how long a worker has for a shard, 5 to 3600.
        by_hand: whether a shard is done only when `Shards.done` is called for it.

    Raises:
        ValueError: neither or both of `size` and `records`, or a number below 1.
        BadEnvironment: the pod's variables are not those of the operator.
    """
    if (size is None) == (records is None):
        raise ValueError("shards takes the size of the data set, or the names of its records")
    count = len(records) if records is not None else int(size or 0)
    if min(count, shard_size, epochs) < 1:
        raise ValueError("shards takes a size, a shard_size and epochs of 1 or more")
    plan = Plan(count, shard_size, epochs, shuffle, seed, lease_seconds, _digest(records))
    here = Job.of(os.environ)
    found = connection(here)
    if found is None:
        source: Any = Local(plan)
    else:
        own = f"{here.pod}.{uuid.uuid4().hex[:8]}"[-127:].lstrip("-._")
        source = Remote.of(here.id, name, plan, worker=own, send=found[1])
    worker = Worker(source, lease_seconds=lease_seconds)
    return Shards(name, worker, plan, names=records, by_hand=by_hand)


def _digest(records: Sequence[str] | None) -> str:
    """Return a digest of the names in their order: all workers have to have the same ones."""
    if records is None:
        return ""
    found = blake2b(digest_size=16)
    for each in records:
        found.update(f"{len(each)}:{each}".encode())
    return found.hexdigest()
