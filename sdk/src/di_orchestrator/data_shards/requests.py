"""Requests for data shards and their answers: from di-server, and from this process outside a
job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from di_orchestrator.data_shards.order import shard_at
from di_orchestrator.server.client import Send, run
from di_orchestrator.server.exchange import Patience, Request, ask

T = TypeVar("T")

DEFAULT_AHEAD = 2.0
"""Seconds of work that a worker asks for before it knows better."""


@dataclass(frozen=True)
class Plan:
    """A data set, and how it is divided; see `di.shards`."""

    size: int
    shard_size: int
    epochs: int
    shuffle: bool
    seed: int
    lease_seconds: int
    records: str

    def body(self) -> dict[str, Any]:
        """Return the fields of requests."""
        return {
            "size": self.size,
            "shardSize": self.shard_size,
            "epochs": self.epochs,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "leaseSeconds": self.lease_seconds,
            "records": self.records,
        }

    @property
    def per_epoch(self) -> int:
        """Return the number of shards in an epoch."""
        return -(-self.size // self.shard_size)


@dataclass(frozen=True)
class Piece:
    """The records of a shard: from `start` to before `end`."""

    index: int
    epoch: int
    start: int
    end: int


@dataclass(frozen=True)
class Answer:
    """The answer to a worker's request.

    Attributes:
        generation: number of the position, which grows when one is restored.
        pieces: the shards that the worker has got.
        lost: indexes of those that it holds, and that others have by now.
        done, total: numbers of shards of all epochs.
        is_finished: whether all are done.
        retry_after: seconds until a worker without a shard should ask again.
        ahead: seconds of work to ask for at once: more with many workers, so that all together
            send few requests.
    """

    generation: int
    pieces: tuple[Piece, ...]
    lost: frozenset[int]
    done: int
    total: int
    is_finished: bool
    retry_after: float
    ahead: float = DEFAULT_AHEAD


class Remote:
    """The shards of a data set at di-server; each method can raise `Refused` and `Unreachable`."""

    def __init__(self, path: str, plan: Plan, worker: str, send: Send) -> None:
        self._path = path
        self._plan = plan
        self._worker = worker
        self._send = send

    @classmethod
    def of(cls, job: str, name: str, plan: Plan, *, worker: str, send: Send) -> Remote:
        """Return those of a job, `<namespace>/<name>`, for a worker."""
        return cls(f"/v2alpha1/job/{job}/shards/{quote(name, safe='')}", plan, worker, send)

    def take(self, said: Mapping[str, Any]) -> Answer:
        """Report what is done, and return the next shards."""
        body = {**self._plan.body(), "worker": self._worker, **said}
        return self._ask(Request("POST", self._path, body=body), _answer)

    def position(self) -> dict[str, Any]:
        """Return the position for a checkpoint."""
        return self._ask(Request("GET", self._path), _position)

    def restore(self, position: Mapping[str, Any]) -> None:
        """Go on from a position."""
        self._ask(Request("PUT", self._path, body={**self._plan.body(), **position}), dict)

    def _ask(self, request: Request, read: Callable[[Any], T]) -> T:
        return run(ask(request, read, Patience(), time.monotonic), self._send)


@dataclass
class Local:
    """The shards of a data set for a program outside a job, which is the only worker."""

    plan: Plan
    after: int = 0
    undone: list[int] = field(default_factory=list)
    _held: set[int] = field(default_factory=set)

    def take(self, said: Mapping[str, Any]) -> Answer:
        """Report what is done, and return the next shards."""
        total = self.plan.per_epoch * self.plan.epochs
        self._held -= set(said["done"])
        if said.get("leaves"):
            self.undone = sorted({*self.undone, *self._held})
            self._held.clear()
        given: list[int] = []
        while len(given) < said["number"] and (self.undone or self.after < total):
            given.append(self.undone.pop(0) if self.undone else self.after)
            self.after = max(self.after, given[-1] + 1)
        self._held.update(given)
        done = self.after - len(self.undone) - len(self._held)
        pieces = tuple(map(self._piece, given))
        return Answer(0, pieces, frozenset(), done, total, done == total, 0.0)

    def position(self) -> dict[str, Any]:
        """Return the position for a checkpoint."""
        undone = sorted({*self.undone, *self._held})
        return {"after": self.after, "undone": ",".join(map(str, undone))}

    def restore(self, position: Mapping[str, Any]) -> None:
        """Go on from a position."""
        self.after, self.undone = int(position["after"]), []
        self._held.clear()
        for part in filter(None, str(position["undone"]).split(",")):
            first, _, last = part.partition("-")
            self.undone += range(int(first), int(last or first) + 1)

    def _piece(self, index: int) -> Piece:
        plan = self.plan
        epoch, place = divmod(index, plan.per_epoch)
        if plan.shuffle:
            place = shard_at(place, count=plan.per_epoch, seed=plan.seed, epoch=epoch)
        start = place * plan.shard_size
        return Piece(index, epoch, start, min(start + plan.shard_size, plan.size))


def _answer(found: Mapping[str, Any]) -> Answer:
    return Answer(
        generation=int(found["generation"]),
        pieces=tuple(
            Piece(*(int(each[key]) for key in ("index", "epoch", "start", "end")))
            for each in found["shards"]
        ),
        lost=frozenset(map(int, found["lost"])),
        done=int(found["done"]),
        total=int(found["total"]),
        is_finished=bool(found["finished"]),
        retry_after=float(found["retryAfter"]),
        # A di-server of an earlier version does not say it.
        ahead=float(found.get("ahead", DEFAULT_AHEAD)),
    )


def _position(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"after": int(found["after"]), "undone": str(found["undone"])}
