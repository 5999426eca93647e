"""What the allocator must have done long after the last disturbance: no job waits, and no pod
moves, without need.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from di_api.names import KIND
from di_api.ownership import controller_uid
from di_api.phase import has_finished
from di_kube.resources import PODS
from di_operator.lifecycle.observed.pods import is_finished
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.api import WatchedApi
from tests.unit.operator.histories.nodes import NAMES, SLOTS
from tests.unit.operator.histories.world import World

LONGEST_DELAY: Final = 700.0
"""Seconds after which no node and no job is kept out for an earlier refusal, and all jobs have been
reconsidered.
"""
QUIET: Final = 130.0
"""Seconds in which nothing happens: two periods of the allocator."""
MOST_WRITES: Final = 5
"""Number of writes of a job in that time, such as those of a forecast."""
MOST_MOVES: Final = 4
"""Number of times that a job is moved from the last disturbance on."""
_GROWING: Final = ("fit", "binpack")
"""Policies that give a job what it asks for once that is free, and make way for high priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    name: str
    preemptible: bool
    is_whole: bool
    """It starts with all of its replicas."""
    is_high: bool
    tasks: Sequence[Object]
    placed: Mapping[str, int]
    """Replicas with a node, by task."""
    pods: Sequence[Object]
    """Those that have not ended."""

    @classmethod
    def read(cls, job: Object, pods: Sequence[Object]) -> Self:
        metadata, spec, status = job["metadata"], job["spec"], job.get("status") or {}
        is_gang = (spec.get("scheduling") or {}).get("gang", False)
        return cls(
            name=metadata["name"],
            preemptible=bool(spec.get("preemptible")),
            is_whole=not spec.get("preemptible") or is_gang,
            is_high=spec.get("priority") == "high",
            tasks=spec["tasks"],
            placed={name: len(nodes) for name, nodes in (status.get("placement") or {}).items()},
            pods=[pod for pod in pods if controller_uid(pod) == metadata["uid"]],
        )

    @property
    def minimum(self) -> int:
        """The slots with which it starts."""
        return sum(
            int(task["replicas"] if self.is_whole else min(task["minReplicas"], task["replicas"]))
            for task in self.tasks
        )

    @property
    def held(self) -> int:
        """The slots that it has, also those of replicas that have succeeded."""
        return max(sum(self.placed.values()), len(self.pods))

    def small(self, free: int) -> Iterator[str]:
        """Yield the tasks that could have more of the replicas that they ask for."""
        for task in self.tasks:
            missing = min(task["replicas"], task["maxReplicas"]) - self.placed.get(task["name"], 0)
            needed = 1 if task["type"] == "collector" else missing
            if 0 < needed <= free and missing > 0 and self.placed:
                name = f"task {task['name']} of {self.name}"
                yield f"{name} lacks {missing}, and {free} slots are free"

    @property
    def unbound(self) -> int:
        return sum("nodeName" not in pod["spec"] for pod in self.pods)


def undone(api: WatchedApi, policy: str) -> Iterator[str]:
    """Yield what the allocator has not done with the present jobs, pods and nodes."""
    pods = [pod for pod in api.stored(PODS.kind).values() if not is_finished(pod)]
    jobs = [
        _Job.read(job, pods)
        for job in api.stored(KIND).values()
        if not (has_finished(job) or job["spec"].get("suspend"))
    ]
    others = [pod for pod in pods if controller_uid(pod) is None]
    movable = sum(job.held for job in jobs if job.preemptible)
    free = SLOTS * len(NAMES) - len(others) - sum(job.held for job in jobs)
    of_normal = sum(job.held for job in jobs if job.preemptible and not job.is_high)
    waiting = [job for job in jobs if not job.held]
    for job in waiting:
        if job.minimum <= free:
            yield f"job {job.name} waits, and {free} slots are free"
        is_first = job.is_high if policy in _GROWING else not job.preemptible
        behind = of_normal if policy in _GROWING else movable
        if is_first and job.minimum <= free + behind:
            yield f"job {job.name} waits behind jobs that make way for it"
    for pod in others:
        is_behind = "nodeName" not in pod["spec"] and pod["spec"]["priority"] > 0
        if is_behind and free + movable >= 0:
            yield f"{pod['metadata']['name']} waits behind jobs of a lower priority"
    started = [job for job in jobs if job.unbound and not job.preemptible]
    if len(started) == 1 and free + movable >= 0:
        yield f"gang {started[0].name} has {started[0].unbound} pods without a node"
    for job in jobs:
        if job.preemptible and job.unbound:
            yield f"job {job.name} has {job.unbound} pods without a node"
        if policy in _GROWING and not waiting and job.preemptible:
            yield from job.small(free)


async def check(world: World, blame: Callable[[str], None]) -> None:
    """Report what the allocator has left undone or goes on doing once no delay lasts.

    Most histories do not wait for that if there is nothing to do.
    """
    assert world.allocation is not None
    if not [*undone(world.api, world.allocation.policy)] and world.random.random() < 0.7:
        return
    moved = Counter(event.reason for event in world.events)[Reason.JOB_RESCHEDULING]
    await asyncio.sleep(LONGEST_DELAY)
    before, pods = _writes(world), {*world.pods}
    await asyncio.sleep(QUIET)
    for fault in undone(world.api, world.allocation.policy):
        blame(fault)
    for name, number in _writes(world).items():
        if number - before.get(name, 0) > MOST_WRITES:
            blame(f"job {name} was written {number - before.get(name, 0)} times at rest")
    moved = Counter(event.reason for event in world.events)[Reason.JOB_RESCHEDULING] - moved
    if moved > MOST_MOVES * len(world.names):
        blame(f"jobs were moved {moved} times at rest")
    # Under `goodput` sizes change with the age of jobs.
    if world.allocation.policy in _GROWING and pods != {*world.pods}:
        blame(f"pods changed at rest: {sorted(pods ^ {*world.pods})}")


def _writes(world: World) -> Mapping[str, int]:
    return Counter(
        text.split(":")[0].removeprefix(f"{KIND} ")
        for _, text in world.trace
        if text.startswith(f"{KIND} ")
    )
