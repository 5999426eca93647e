"""What can be asked of di-server about one job: each method is an exchange (see `exchange`).

Programs use `Client` or `aio.Client`, which drive these.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar
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
"""The longest that di-server lets a request wait for news."""
NO_NEWS_PAUSE = 1.0
"""After an answer that is no news: who finds no place to wait is answered at once."""
POLL_SECONDS = 2.0
"""Between two looks at the pods of a task, in a small job, where di-server does not let wait."""
POLLS_PER_SECOND = 5.0
"""Looks that all pods of a task take together, a quarter of the requests that a job may make."""


@dataclass(frozen=True)
class Peer:
    """A pod of a task that runs.

    Attributes:
        pod: its name, which the one that replaces it has too.
        rank: in the job.
        address: `<ip>:<port>`.
    """

    pod: str
    rank: int
    address: str

    @property
    def url(self) -> str:
        """Where it serves HTTP, if it does."""
        return f"http://{self.address}"


@dataclass(frozen=True)
class Peers:
    """The pods of a task, and the tag by which di-server knows them again; none of an older one."""

    tag: str
    peers: tuple[Peer, ...]


@dataclass(frozen=True)
class Member:
    """What a pod says of itself on the board of its job.

    Attributes:
        pod, uid: its name, and which pod of that name.
        task: of the pod.
        url: where it serves.
        says: what it has put there, with its `url`.
    """

    pod: str
    uid: str
    task: str
    url: str
    says: Mapping[str, Any] = field(hash=False)


@dataclass(frozen=True)
class Members:
    """The board, by name of the pod, and the tag by which di-server knows it again."""

    generation: str
    members: tuple[Member, ...]


@dataclass(frozen=True)
class Heartbeat:
    """An entry stands for `lifetime` seconds, and is to be repeated every `seconds`."""

    seconds: float
    lifetime: float


class Api:
    """One job with tasks at di-server, as one of its pods sees it.

    Args:
        job: `<namespace>/<name>`.
        pod: name of the pod that asks.
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
        """Add replicas, or give the last ones back; how many there are to be then."""
        method = "POST" if change > 0 else "DELETE"
        return self._count(method, {"replicas": abs(change), **_task(task)})

    def scale_to(self, task: str | None, replicas: int) -> Exchange[int]:
        """Have so many replicas; how many there are to be then."""
        return self._count("PUT", {"replicas": replicas, **_task(task)})

    def remove(self, names: Sequence[str]) -> Exchange[int]:
        """Give back the replicas of these names, or of these pods; how many there are then."""
        return self._count("DELETE", {"names": list(names)})

    def replicas(self) -> Exchange[dict[str, int]]:
        """How many replicas each task is to have, by its name."""
        return self._ask(Request("GET", f"{self._path}/tasks"), _replicas)

    def report(self, profilings: Mapping[str, Any], seconds: float) -> Exchange[int | None]:
        """Publish what the job reports of itself; it is there when this returns.

        The result is the batch that the allocator advises; None: it does not.
        """
        request = Request("POST", f"{self._path}/profilings", body=profilings)
        return self._ask(request, _advised, Patience(seconds, self._patience.random))

    def peers(self, task: str) -> Exchange[tuple[Peer, ...]]:
        """The pods of a task that run and listen, by rank."""
        return self._ask(Request("GET", self._pods(task)), _peers)

    def next_peers(self, task: str, known: Peers | None) -> Exchange[Peers]:
        """The same, once they are others than those known; waits as long as that takes."""
        found = known
        while True:
            began = self._clock()
            found = (yield from _patiently(self._listed(task, found))) or found
            if found is not None and (known is None or found.peers != known.peers):
                return found
            # Who was let wait asks again at once, lest a change is told late.
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
        """The world of a process group, once it is another than the known; waits for it."""
        path = f"{self._path}/group/{quote(task, safe='')}"
        query = {} if known is None else {"generation": str(known)}
        while True:
            world = yield from _patiently(self._wait(path, query, world_of))
            if world is not None and world.is_formed and world.generation != known:
                return world
            yield Pause(NO_NEWS_PAUSE)

    def say(self, said: Mapping[str, Any]) -> Exchange[Heartbeat]:
        """Put the entry of this pod on the board."""
        request = Request("PUT", f"{self._path}/members/{self._pod}", body=said)
        return self._ask(request, _heartbeat)

    def members(self, task: str | None) -> Exchange[Members]:
        """The board, of one task or of all."""
        request = Request("GET", f"{self._path}/members", _task(task))
        return self._ask(request, lambda found: _members(found, ()))

    def next_members(self, task: str | None, known: Members | None) -> Exchange[Members]:
        """The same, once it is another than the known; waits as long as that takes.

        Only what has changed is sent, where di-server knows what is known.
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
        # One key for the change, however often it has to be sent: it takes effect once.
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
    """A request that di-server may answer later."""
    whole = {**query, "wait": str(WAIT_SECONDS)}
    return Request("GET", path, whole, seconds=ANSWER_SECONDS + WAIT_SECONDS)


def _patiently(exchange: Exchange[T]) -> Exchange[T | None]:
    """The result, or None after a pause if nobody answered: who follows something goes on."""
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
    # A di-server of before had none to tell.
    return None if found is None else int(found["batchSize"])


def _heartbeat(found: Mapping[str, Any]) -> Heartbeat:
    return Heartbeat(float(found["heartbeatSeconds"]), float(found["lifetimeSeconds"]))


def _members(found: Mapping[str, Any], known: Sequence[Member]) -> Members:
    """All of the board, of all of it or of what has changed since the known."""
    board = {} if found["complete"] else {each.pod: each for each in known}
    for each in found["members"]:
        said = dict(each["says"])
        member = Member(str(each["pod"]), str(each["uid"]), str(each["task"]), said["url"], said)
        board[member.pod] = member
    for pod in found["gone"]:
        board.pop(pod, None)
    return Members(str(found["generation"]), tuple(board[pod] for pod in sorted(board)))
