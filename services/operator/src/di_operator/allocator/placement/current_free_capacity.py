"""The room that is free at this moment, beside the pods there are and those about to be made."""

from __future__ import annotations

from di_operator.allocator.model.free_capacity import FreeCapacity, tally
from di_operator.allocator.model.job import NodeList, TaskInfo
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot


class PresentRoom:
    """Free room, less that of replicas that were granted, whose pods may be made at any time.

    A node on which more was granted than there is room for has none for anybody else; the other
    nodes are not touched by that.
    """

    def __init__(self, snapshot: SchedulingSnapshot) -> None:
        """All that jobs hold by this look counts as granted."""
        self._snapshot = snapshot
        self._capacity = FreeCapacity(snapshot.now)
        for key, held in snapshot.held.items():
            self._book(key, held, 1)

    @property
    def capacity(self) -> FreeCapacity:
        """What nobody takes, and nobody was granted."""
        return self._capacity

    def take(self, key: str, wants: NodeList) -> bool:
        """Grant a job other nodes than it holds, if its missing replicas have room there; False,
        and no change, if they have not."""
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
        present = self._snapshot.present[key]
        return [
            (task, node, missing)
            for task in self._snapshot.jobs[key].tasks
            for node, count in tally(nodes.task(task.name)).items()
            if (missing := count - present.get((task.name, node), 0)) > 0
        ]
