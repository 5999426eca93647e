"""di-server, asked and waited for."""

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
    """Drive an exchange to its result; raises what it raises."""
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
    """One job at di-server. Every method may raise `Refused` and `Unreachable`.

    Requests that had no answer, or were refused for now, are sent again with growing pauses for a
    minute; what changes something takes effect once, however often it is sent.
    """

    def __init__(self, api: Api, send: Send) -> None:
        self._api = api
        self._send = send

    def scale(
        self, task: str | None = None, change: int | None = None, *, to: int | None = None
    ) -> int:
        """Change the number of a task's replicas; returns how many there are to be.

        Args:
            task: None: the collector task, or the only one.
            change: how many more, or fewer if it is negative.
            to: how many in all, in place of `change`.

        Raises:
            Refused: past a bound, or the job is finished, suspended, or has no such task.
            ValueError: neither or both of `change` and `to`, or a change of none.
        """
        return self._run(scaling(self._api, task, change, to))

    def remove(self, *names: str) -> int:
        """Give back replicas of one task by their names, or those of their pods.

        Returns how many replicas that task is to have.

        Raises:
            Refused: there is none of a name, or fewer than allowed would be left.
        """
        return self._run(self._api.remove(names))

    def replicas(self) -> dict[str, int]:
        """How many replicas each task is to have, by its name; others may have changed it."""
        return self._run(self._api.replicas())

    def peers(self, task: str) -> tuple[Peer, ...]:
        """The pods of a task that run now and listen, by rank."""
        return self._run(self._api.peers(task))

    def watch_peers(self, task: str) -> Iterator[tuple[Peer, ...]]:
        """The pods of a task: at once, and whenever others run. Rides out a di-server that is away.

        di-server tells of a change within half a second. Where too many wait for one, it looks
        every two seconds, less often in jobs of more than ten such pods.
        """
        known: Peers | None = None
        while True:
            known = self._run(self._api.next_peers(task, known))
            yield known.peers

    def watch_worlds(self, task: str) -> Iterator[World]:
        """The worlds of a task's process group: the present one, and each one that follows."""
        known: int | None = None
        while True:
            world = self._run(self._api.next_world(task, known))
            known = world.generation
            yield world

    def members(self, task: str | None = None) -> tuple[Member, ...]:
        """What the pods of a task, or of all, say of themselves on the board."""
        return self._run(self._api.members(task)).members

    def watch_members(self, task: str | None = None) -> Iterator[tuple[Member, ...]]:
        """The same: at once, and whenever one is new, is gone, or says something else."""
        known: Members | None = None
        while True:
            known = self._run(self._api.next_members(task, known))
            yield known.members

    def _run(self, exchange: Exchange[T]) -> T:
        return run(exchange, self._send)


def scaling(api: Api, task: str | None, change: int | None, to: int | None) -> Exchange[int]:
    """The exchange of `Client.scale`."""
    if (change is None) == (to is None) or change == 0:
        raise ValueError("scale takes a change other than 0, or `to`, the number there is to be")
    if to is not None:
        return api.scale_to(task, to)
    assert change is not None
    return api.scale(task, change)
