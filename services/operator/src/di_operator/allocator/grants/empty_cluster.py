"""The nodes of the cluster without their pods, and the jobs that they could run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.spec import JobSpec
from di_operator.allocator.grants.shortage import find_shortage
from di_operator.allocator.model.free_capacity import FreeCapacity
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.observe.inventory import MAKES_NO_SENSE, read_job, read_node

Object = Mapping[str, Any]

MOST_ANSWERS: Final = 4096
"""Maximum number of jobs whose result is kept while no node changes."""


class EmptyCluster:
    """The nodes of the cluster without any pod.

    Nodes are parsed only when a job is checked: most clusters seldom have a pod that waits.
    """

    def __init__(self) -> None:
        self._changed: dict[str, Object] = {}
        self._nodes: dict[str, NodeInfo] = {}
        self._capacity: FreeCapacity | None = None
        # By UID of a job: the generation of its spec, and the result for it.
        self._answers: dict[str, tuple[object, bool]] = {}

    def listen(self, kind: str, node: Object) -> None:
        """Record a change of a node."""
        name = node["metadata"]["name"]
        if kind == "DELETED":
            self._changed.pop(name, None)
            if self._nodes.pop(name, None) is not None:
                self._forget()
        else:
            self._changed[name] = node

    def could_run(self, job: Object, spec: JobSpec) -> bool:
        """Return whether all pods of a job fit on the nodes together, with their selectors,
        affinity and tolerations. A job that cannot be read does not fit.
        """
        self._read_changed()
        uid, generation = job["metadata"]["uid"], job["metadata"].get("generation")
        known = self._answers.get(uid)
        if known is None or known[0] != generation:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            known = self._answers[uid] = generation, self._fits(job, spec)
        return known[1]

    def _fits(self, job: Object, spec: JobSpec) -> bool:
        if self._capacity is None:
            self._capacity = FreeCapacity(self._nodes)
        try:
            info = read_job(job, spec, report=None).info
        except MAKES_NO_SENSE:
            return False
        return find_shortage(info, self._capacity) is None

    def _read_changed(self) -> None:
        for name, node in self._changed.items():
            before = self._nodes.pop(name, None)
            try:
                now = self._nodes[name] = read_node(node)
            except MAKES_NO_SENSE:
                now = None
            # Most updates of a node change nothing that a pod depends on.
            if now != before:
                self._forget()
        self._changed.clear()

    def _forget(self) -> None:
        self._capacity = None
        self._answers.clear()
