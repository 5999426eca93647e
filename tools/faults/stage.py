"""What workloads are told with: the user of a job, and what is seen of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from tools.faults.testbed import Object

JOB = "a"


class Stage(Protocol):
    """What a workload may do; it sees the API server directly, not through a proxy."""

    async def submit(self, body: Object) -> Object: ...

    async def patch(self, spec: Object) -> None: ...

    async def delete(self) -> None: ...

    async def fail(self, pod: str) -> None: ...

    async def exhaust(self, pod: str) -> None:
        """Its container is killed for want of memory."""
        ...

    async def check(self, pod: str, *, node: str, seconds: float) -> None:
        """It runs on a node, if nobody else binds it, and its check took so long there."""
        ...

    async def restart(self, pod: str) -> None:
        """Its container fails, and is started again in it."""
        ...

    async def finish(self, pod: str) -> None: ...

    async def hold(self, pod: str) -> None:
        """It stays there, however it ends and whoever deletes it, until `let_go`."""
        ...

    async def let_go(self, pod: str) -> None: ...

    async def reached(self, what: str, test: Callable[[Object], bool]) -> None:
        """Wait until the job's status passes the test."""
        ...

    async def until(self, what: str, test: Callable[[], object]) -> None: ...

    def pods(self) -> Mapping[str, Object]: ...

    def job(self) -> Object | None: ...

    async def queue(self, cpu: str) -> str:
        """A queue of Kueue with so many cores; returns its name."""
        ...

    async def stop_queue(self, policy: str | None) -> None:
        """Stop it (`Hold`, `HoldAndDrain`), or let it go on."""
        ...

    async def hand_over(self) -> None:
        """Tell the leader to stop, while another replica stands by."""
        ...


Story: TypeAlias = Callable[[Stage], Awaitable[None]]


def runs(replicas: int, restarts: int = 0) -> Callable[[Object], bool]:
    """The job runs with so many replicas, after so many restarts."""
    return lambda status: (
        status.get("phase") == "Running"
        and status.get("replicas") == replicas
        and status.get("restarts", 0) >= restarts
    )


def is_in(phase: str) -> Callable[[Object], bool]:
    return lambda status: status.get("phase") == phase


async def finish_all(stage: Stage) -> None:
    """End every pod well; not by a timer, or a slow run would see others end than a fast one."""
    await asyncio.gather(*(stage.finish(pod) for pod in stage.pods()))
    await stage.reached("Succeeded", is_in("Succeeded"))
