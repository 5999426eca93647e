"""Tiresias (NSDI'19), discretised least attained service with two queues.

Jobs run on exactly the replicas their owners asked for. One that has had 16 GPU-hours leaves the
first queue for the second; within a queue the earlier goes first. Settings and rounding follow
the Pollux artifact, so that the figures can be compared with those published there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.model.node import NodeInfo
from di_simulator.hardware import gpus

# GPU-seconds after which a job is demoted.
THRESHOLD = 16 * 3600


class TiresiasPolicy:
    """Remembers how long each job has run, hence one object per simulation."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._first: list[str] = []
        self._second: list[str] = []
        self._running: set[str] = set()
        self._executed: Counter[str] = Counter()
        self._checked = 0

    def allocate(self, job: JobInfo, nodes: Mapping[str, NodeInfo]) -> NodeList:
        """Wait for the next round."""
        del job, nodes
        return WAIT

    def optimize(
        self,
        jobs: Mapping[str, JobInfo],
        nodes: Mapping[str, NodeInfo],
        previous: Mapping[str, NodeList],
    ) -> dict[str, NodeList]:
        """Run the heads of the queues that fit together, on as few nodes as possible each."""
        self._account(jobs)
        left = sum(gpus(node) for node in nodes.values())
        self._running = set()
        for key in (*self._first, *self._second):
            if jobs[key].tasks[0].replicas <= left:
                self._running.add(key)
                left -= jobs[key].tasks[0].replicas
        kept = {key: placed for key, placed in previous.items() if key in self._running and placed}
        order = [key for key in (*self._first, *self._second) if key in self._running]
        wanted = {key: jobs[key].tasks[0].replicas for key in order}
        return spread_largest_first(jobs, nodes, kept, order, wanted)

    def _account(self, jobs: Mapping[str, JobInfo]) -> None:
        now = int(self._clock())
        passed, self._checked = now - self._checked, now
        known = {*self._first, *self._second}
        self._first = [key for key in self._first if key in jobs]
        self._second = [key for key in self._second if key in jobs]
        self._first += [key for key in jobs if key not in known]
        for key in jobs:
            if key not in self._running:
                continue
            self._executed[key] += passed
            if (
                key in self._first
                and self._executed[key] * jobs[key].tasks[0].replicas >= THRESHOLD
            ):
                self._first.remove(key)
                self._second.append(key)


def spread_largest_first(
    jobs: Mapping[str, JobInfo],
    nodes: Mapping[str, NodeInfo],
    kept: Mapping[str, NodeList],
    order: Iterable[str],
    wanted: Mapping[str, int],
) -> dict[str, NodeList]:
    """Give each job in turn the emptiest nodes until it has what it wants."""
    free = Counter({name: gpus(node) for name, node in nodes.items()})
    for placed in kept.values():
        free.subtract(placed)
    answer = {key: kept.get(key, WAIT) for key in jobs}
    for key in order:
        if answer[key] or not wanted[key]:
            continue
        chosen: list[str] = []
        while len(chosen) < wanted[key]:
            # The first of equals, in the order of the nodes.
            name = max(free, key=lambda node: free[node])
            count = min(free[name], wanted[key] - len(chosen))
            chosen += [name] * count
            free[name] -= count
        answer[key] = NodeList.of({jobs[key].tasks[0].name: tuple(chosen)})
    return answer
