"""The capacity that is free at this moment, beside existing pods and granted ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from di_operator.allocator.model.free_capacity import FreeCapacity, tally
from di_operator.allocator.model.job import NodeList, TaskInfo
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot


class PresentRoom:
    """Free capacity, without that of granted replicas whose pods can be created at any time.

    A node with more granted than fits has no free capacity for other jobs; the other nodes are not
    affected.
    """

    def __init__(self, snapshot: SchedulingSnapshot) -> None:
        """Start from a snapshot: all that jobs hold in it counts as granted."""
        self._snapshot = snapshot
        self._capacity = FreeCapacity(snapshot.now)
        for key, held in snapshot.held.items():
            self._book(key, held, 1)

    @property
    def capacity(self) -> FreeCapacity:
        """Return what is neither taken by pods nor granted."""
        return self._capacity

    def take(self, key: str, wants: NodeList) -> bool:
        """Grant a job other nodes than it holds, if its missing replicas fit there; else return
        False, without a change.
        """
        held = self._snapshot.held[key]
        self._book(key, held, -1)
        if self._capacity.take_parts(self._missing(key, wants)):
            return True
        self._book(key, held, 1)
        return False

    def _book(self, key: str, nodes: NodeList, sign: int) -> None:
        for task, node, count in self._missing(key, nodes):
            if (row := self._capacity.index.get(node)) is not None:
                self._capacity.take(task, row, sign * count)

    def _missing(self, key: str, nodes: NodeList) -> list[tuple[TaskInfo, str, int]]:
        present, held = self._snapshot.present[key], self._snapshot.held[key]
        return [
            (task, node, missing)
            for task in self._snapshot.jobs[key].tasks
            for node, missing in _without_pods(
                task, held.task(task.name), nodes.task(task.name), present
            )
            if missing > 0
        ]


def _without_pods(
    task: TaskInfo,
    held: Sequence[str],
    nodes: Sequence[str],
    present: Mapping[tuple[str, str], int],
) -> Iterator[tuple[str, int]]:
    """Yield how many replicas of a task lack a pod on each of their nodes.

    A pod counts only for its own index: a replica that moves to a node, or off it, ends its pod
    there, which takes capacity until it is gone.
    """
    had = tally(held)
    stays = tally(node for node, then in zip(held, nodes, strict=False) if node == then)
    for node, count in tally(nodes).items():
        there = present.get((task.name, node), 0)
        leaving = had.get(node, 0) - stays.get(node, 0)
        yield node, count - max(0, min(there, had.get(node, 0)) - leaving)
