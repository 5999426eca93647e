"""The nodes of the cluster and their free capacity, updated as pods and nodes change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from di_api.wording import reason_of
from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.resources import Resources
from di_operator.allocator.observe.inventory import MAKES_NO_SENSE, Unreadable, read_node
from di_operator.allocator.observe.node_usage import Ledger

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Room:
    """A node without what stays there, and without everything there is."""

    lasting: NodeInfo
    now: NodeInfo


class NodePool:
    """Nodes by name; a node that cannot be read is left out and named.

    Attributes:
        staying: what the allocator cannot reassign.
        passing: what it can, and what ends soon: pods of its jobs, and terminating pods.
        unknown: pods whose requests are not known. Nothing is free on their nodes at present.
        unreadable: by UID, the nodes that cannot be read.
    """

    def __init__(self, *, kind_label: str | None = None) -> None:
        """Take `kind_label`, the label whose value is a node's kind; None: all are of one."""
        self._kind_label = kind_label
        self.staying = Ledger()
        self.passing = Ledger()
        self.unknown = Ledger()
        self.unreadable: dict[str, Unreadable] = {}
        # As if nothing were taken.
        self._empty: dict[str, NodeInfo] = {}
        self._rooms: dict[str, _Room] = {}

    def put(self, node: Object) -> None:
        """Store a node as it is now."""
        self.remove(node)
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        try:
            self._empty[name] = read_node(node, kind_label=self._kind_label)
        except MAKES_NO_SENSE as error:
            self.unreadable[uid] = Unreadable.of("Node", node, reason_of(error))

    def remove(self, node: Object) -> None:
        """Record the deletion of a node."""
        self._empty.pop(node["metadata"]["name"], None)
        self._rooms.pop(node["metadata"]["name"], None)
        self.unreadable.pop(node["metadata"]["uid"], None)

    def rooms(self) -> tuple[dict[str, NodeInfo], dict[str, NodeInfo]]:
        """Return all nodes by name, in order: with what is free beside what stays, and beside
        everything.
        """
        touched = self.staying.touched | self.passing.touched | self.unknown.touched
        for ledger in (self.staying, self.passing, self.unknown):
            ledger.touched.clear()
        for name in touched & self._rooms.keys() | self._empty.keys() - self._rooms.keys():
            self._rooms[name] = self._room(self._empty[name])
        names = sorted(self._rooms)
        return (
            {name: self._rooms[name].lasting for name in names},
            {name: self._rooms[name].now for name in names},
        )

    def _room(self, node: NodeInfo) -> _Room:
        lasting = _without(node, self.staying.taken(node.name))
        if self.unknown.taken(node.name):
            return _Room(lasting, _without(node, node.total))
        # Free capacity is not below zero, so both are subtracted from the total.
        staying, passing = self.staying.taken(node.name), self.passing.taken(node.name)
        both = {name: staying.get(name, 0) + passing.get(name, 0) for name in node.total}
        return _Room(lasting, _without(node, both) if passing else lasting)


def _without(node: NodeInfo, taken: Resources) -> NodeInfo:
    free = {name: max(0, amount - taken.get(name, 0)) for name, amount in node.total.items()}
    return replace(node, free=free)
