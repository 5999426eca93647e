"""The requests to di-server about one job; each method returns an exchange (see `exchange`).

Programs use `Client` or `aio.Client`, which run the exchanges.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from di_orchestrator.errors import Unreachable
from di_orchestrator.job import World, world_of
from di_orchestrator.server.exchange import (
    ANSWER_SECONDS,
    LONGEST_PAUSE,
    NOT_MODIFIED,
    Clock,
    Exchange,
    Patience,
    Pause,
    Request,
    answer,
    ask,
    data,
)

T = TypeVar("T")

WAIT_SECONDS = 20
"""Maximum seconds that di-server lets a request wait for news."""
NO_NEWS_PAUSE = 1.0
"""Delay in seconds after a response without news: without a free place to wait, di-server responds
at once.
"""
POLL_SECONDS = 2.0
"""Seconds between two polls of a task's pods, in a small job, if di-server does not support
waiting.
"""
POLLS_PER_SECOND = 5.0
"""Polls per second of all pods of a task together, a quarter of the job's rate limit."""


@dataclass(frozen=True)
class Peer:
    """A running pod of a task.

    Attributes:
        pod: its name, which its replacement has too.
        rank: in the job.
        address: `<ip>:<port>`.
    """

    pod: str
    rank: int
    address: str

    @property
    def url(self) -> str:
        """Return the URL at which it serves HTTP, if it does."""
        return f"http://{self.address}"


class Advice(NamedTuple):
    """Decision of the allocator about the learners that report.

    Attributes:
        batch_size: samples of all of them between two updates; None: it advises none.
        nodes: how many they are on; None: it did not place them.
    """

    batch_size: int | None = None
    nodes: int | None = None


@dataclass(frozen=True)
class Peers:
    """The pods of a task, with di-server's tag for this list; empty for an older server."""

    tag: str
    peers: tuple[Peer, ...]


@dataclass(frozen=True)
class Member:
    """A pod's entry on the board of its job.

    Attributes:
        pod, uid: name and UID of the pod.
        task: of the pod.
        url: address that it serves.
        says: the whole entry, with its `url`.
    """

    pod: str
    uid: str
    task: str
    url: str
    says: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True)
class Members:
    """The board by name of the pod, with di-server's tag for this state."""

    generation: str
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Heartbeat:
    """Lifetime of an entry: it is valid for `lifetime` seconds, and has to be repeated every
    `seconds`.
    """

    seconds: float
    lifetime: float


class Api:
    """One job with tasks at di-server, from the view of one of its pods.

    Args:
        job: `<namespace>/<name>`.
        pod: name of the requesting pod.
    """

    def __init__(
        self,
        job: str,
        pod: str,
        *,
        patience: Patience | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._path = f"/v2alpha1/job/{job}"
        self._pod = pod
        self._patience = patience or Patience()
        self._clock = clock

    def scale(self, task: str | None, change: int) -> Exchange[int]:
        """Add replicas, or remove the last ones; the result is the new number."""
        method = "POST" if change > 0 else "DELETE"
        return self._count(method, {"replicas": abs(change), **_task(task)})

    def scale_to(self, task: str | None, replicas: int) -> Exchange[int]:
        """Set the number of replicas; the result is the new number."""
        return self._count("PUT", {"replicas": replicas, **_task(task)})

    def remove(self, names: Sequence[str]) -> Exchange[int]:
        """Remove the replicas with these names, or of these pods; the result is the new number."""
        return self._count("DELETE", {"names": list(names)})

    def replicas(self) -> Exchange[dict[str, int]]:
        """Return the wanted number of replicas by task name."""
        return self._ask(Request("GET", f"{self._path}/tasks"), _replicas)

    def report(self, profilings: Mapping[str, Any], seconds: float) -> Exchange[int | None]:
        """Publish a report of the job; it is stored when this returns.

        The result is the batch size that the allocator advises; None: no advice.
        """
        request = Request("POST", f"{self._path}/profilings", body=profilings)
        return self._ask(request, _advised, Patience(seconds, self._patience.random))

    def report_training(
        self, profilings: Mapping[str, Any], task: str, seconds: float
    ) -> Exchange[Advice]:
        """Publish what the learners of a task report; the result is what the allocator has decided
        about them."""
        query = {"nodesOf": task}
        request = Request("POST", f"{self._path}/profilings", query, body=profilings)
        return self._ask(request, _advice, Patience(seconds, self._patience.random))

    def peers(self, task: str) -> Exchange[tuple[Peer, ...]]:
        """Return the running pods of a task that listen, by rank."""
        return self._ask(Request("GET", self._pods(task)), _peers)

    def next_peers(self, task: str, known: Peers | None) -> Exchange[Peers]:
        """Return the pods of a task once they differ from the known ones; waits without a time
        limit.
        """
        found = known
        while True:
            began = self._clock()
            found = (yield from _patiently(self._listed(task, found))) or found
            if found is not None and (known is None or found.peers != known.peers):
                return found
            # A request that waited is repeated at once, so that no change is late.
            if self._clock() - began < NO_NEWS_PAUSE:
                count = len(found.peers) if found else 0
                yield Pause(max(POLL_SECONDS, count / POLLS_PER_SECOND))

    def _listed(self, task: str, known: Peers | None) -> Exchange[Peers]:
        request = Request("GET", self._pods(task))
        if known is not None and known.tag:
            request = replace(_waiting(self._pods(task)), headers={"If-None-Match": known.tag})
        found = yield from answer(request, self._patience, self._clock)
        if known is not None and found.status == NOT_MODIFIED:
            return known
        return Peers(found.tag, data(request, found, _peers))

    def next_world(self, task: str, known: int | None) -> Exchange[World]:
        """Return the world of a process group once it differs from the known one; waits for it."""
        path = f"{self._path}/group/{quote(task, safe='')}"
        query = {} if known is None else {"generation": str(known)}
        while True:
            world = yield from _patiently(self._wait(path, query, world_of))
            if world is not None and world.is_formed and world.generation != known:
                return world
            yield Pause(NO_NEWS_PAUSE)

    def say(self, said: Mapping[str, Any]) -> Exchange[Heartbeat]:
        """Publish the entry of this pod on the board."""
        request = Request("PUT", f"{self._path}/members/{self._pod}", body=said)
        return self._ask(request, _heartbeat)

    def members(self, task: str | None) -> Exchange[Members]:
        """Return the board, of one task or of all."""
        request = Request("GET", f"{self._path}/members", _task(task))
        return self._ask(request, lambda found: _members(found, ()))

    def next_members(self, task: str | None, known: Members | None) -> Exchange[Members]:
        """Return the board once it differs from the known one; waits without a time limit.

        If di-server still has the known state, it sends only the changes.
        """
        query = {**_task(task), "changes": "true"}
        before: tuple[Member, ...] = ()
        if known is not None:
            query["generation"], before = known.generation, known.members
        path = f"{self._path}/members"
        while True:
            found = yield from _patiently(
                self._wait(path, query, lambda found: _members(found, before))
            )
            if found is not None and (known is None or found.generation != known.generation):
                return found
            yield Pause(NO_NEWS_PAUSE)

    def _count(self, method: str, body: Mapping[str, Any]) -> Exchange[int]:
        # One key for the change, however often it is sent: it takes effect once.
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        request = Request(method, f"{self._path}/replicas", body=body, headers=headers)
        return self._ask(request, lambda found: int(found["replicas"]))

    def _wait(self, path: str, query: Mapping[str, str], read: Callable[[Any], T]) -> Exchange[T]:
        return self._ask(_waiting(path, query), read)

    def _pods(self, task: str) -> str:
        return f"{self._path}/pods/{quote(task, safe='')}"

    def _ask(
        self, request: Request, read: Callable[[Any], T], patience: Patience | None = None
    ) -> Exchange[T]:
        return ask(request, read, patience or self._patience, self._clock)


def _waiting(path: str, query: Mapping[str, str] = MappingProxyType({})) -> Request:
    """Return a request whose response di-server can delay."""
    whole = {**query, "wait": str(WAIT_SECONDS)}
    return Request("GET", path, whole, seconds=ANSWER_SECONDS + WAIT_SECONDS)


def _patiently(exchange: Exchange[T]) -> Exchange[T | None]:
    """Return the result, or None after a delay without a response: a follower continues."""
    try:
        return (yield from exchange)
    except Unreachable:
        yield Pause(LONGEST_PAUSE)
        return None


def _task(task: str | None) -> dict[str, str]:
    return {} if task is None else {"task": task}


def _replicas(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {str(each["task"]): int(each["replicas"]) for each in found}


def _peers(found: Sequence[Mapping[str, Any]]) -> tuple[Peer, ...]:
    return tuple(Peer(str(each["pod"]), int(each["rank"]), str(each["address"])) for each in found)


def _advised(found: Mapping[str, Any] | None) -> int | None:
    return _advice(found).batch_size


def _advice(found: Mapping[str, Any] | None) -> Advice:
    # Earlier versions of di-server send no nodes.
    return Advice(
        *(int(found[key]) if found and key in found else None for key in ("batchSize", "nodes"))
    )


def _heartbeat(found: Mapping[str, Any]) -> Heartbeat:
    return Heartbeat(float(found["heartbeatSeconds"]), float(found["lifetimeSeconds"]))


def _members(found: Mapping[str, Any], known: Sequence[Member]) -> Members:
    """Return the whole board, from a complete response or from changes to the known entries."""
    board = {} if found["complete"] else {each.pod: each for each in known}
    for each in found["members"]:
        said = dict(each["says"])
        member = Member(str(each["pod"]), str(each["uid"]), str(each["task"]), said["url"], said)
        board[member.pod] = member
    for pod in found["gone"]:
        board.pop(pod, None)
    return Members(str(found["generation"]), tuple(board[pod] for pod in sorted(board)))
