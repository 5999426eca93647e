"""Blocking client of di-server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar, Union

from di_orchestrator.job import World
from di_orchestrator.server.api import Api, Member, Members, Peer, Peers
from di_orchestrator.server.exchange import Answer, Exchange, Pause, Request, Silence

T = TypeVar("T")
Send = Callable[[Request], Union[Answer, Silence]]


def run(exchange: Exchange[T], send: Send, pause: Callable[[float], object] = time.sleep) -> T:
    """Run an exchange to its result; raises its errors."""
    said: Answer | Silence | None = None
    try:
        while True:
            step = exchange.send(said)
            if isinstance(step, Pause):
                pause(step.seconds)
                said = None
            else:
                said = send(step)
    except StopIteration as done:
        result: T = done.value
        return result


class Client:
    """One job at di-server. Every method can raise `Refused` and `Unreachable`.

    Requests without a response, or with a temporary refusal, are retried with growing delays for a
    minute; a change takes effect once, however often it is sent.
    """

    def __init__(self, api: Api, send: Send) -> None:
        self._api = api
        self._send = send

    def scale(
        self, task: str | None = None, change: int | None = None, *, to: int | None = None
    ) -> int:
        """Change the number of a task's replicas; return the new number.

        Args:
            task: None: the collector task, or the only one.
            change: how many more, or fewer if negative.
            to: total number, in place of `change`.

        Raises:
            Refused: beyond a bound, or the job is finished, suspended, or has no such task.
            ValueError: neither or both of `change` and `to`, or a change of zero.
        """
        return self._run(scaling(self._api, task, change, to))

    def remove(self, *names: str) -> int:
        """Remove replicas of one task by their names, or those of their pods; return the new
        number.

        Raises:
            Refused: there is no replica with a name, or too few would be left.
        """
        return self._run(self._api.remove(names))

    def replicas(self) -> dict[str, int]:
        """Return the wanted number of replicas by task name; other clients may have changed it."""
        return self._run(self._api.replicas())

    def peers(self, task: str) -> tuple[Peer, ...]:
        """Return the running pods of a task that listen, by rank."""
        return self._run(self._api.peers(task))

    def watch_peers(self, task: str) -> Iterator[tuple[Peer, ...]]:
        """Yield the pods of a task: at once, and after each change. Continues while di-server is
        unreachable.

        di-server reports a change within half a second. If too many clients wait for one, the pods
        are polled every two seconds, less often in jobs of more than ten such pods.
        """
        known: Peers | None = None
        while True:
            known = self._run(self._api.next_peers(task, known))
            yield known.peers

    def watch_worlds(self, task: str) -> Iterator[World]:
        """Yield the worlds of a task's process group: the present one, and each later one."""
        known: int | None = None
        while True:
            world = self._run(self._api.next_world(task, known))
            known = world.generation
            yield world

    def members(self, task: str | None = None) -> tuple[Member, ...]:
        """Return the entries of the pods of a task, or of all, on the board."""
        return self._run(self._api.members(task)).members

    def watch_members(self, task: str | None = None) -> Iterator[tuple[Member, ...]]:
        """Yield the entries on the board: at once, and whenever one is added, removed or
        changed.
        """
        known: Members | None = None
        while True:
            known = self._run(self._api.next_members(task, known))
            yield known.members

    def _run(self, exchange: Exchange[T]) -> T:
        return run(exchange, self._send)


def scaling(api: Api, task: str | None, change: int | None, to: int | None) -> Exchange[int]:
    """Return the exchange of `Client.scale`."""
    if (change is None) == (to is None) or change == 0:
        raise ValueError("scale takes a change other than 0, or `to`, the number there is to be")
    if to is not None:
        return api.scale_to(task, to)
    assert change is not None
    return api.scale(task, change)
