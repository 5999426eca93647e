"""The nodes of a simulated cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from di_operator.allocator.model.node import NodeInfo
from di_operator.allocator.model.resources import UNIT

GPU: Final = "nvidia.com/gpu"
POOL: Final = "pool"
"""The label of nodes in a pool."""
_GROUP = re.compile(r"(?P<kind>[^:,]+):(?P<nodes>\d+)x(?P<gpus>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Equal nodes with so many GPUs each; `kind` is empty where all nodes are of one kind, `pool`
    where they are in none."""

    kind: str = ""
    pool: str = ""
    nodes: int
    gpus: int


def parse_groups(text: str) -> tuple[Group, ...]:
    """Read `kind:nodesxgpus`, several with commas. Raises ValueError."""
    groups = []
    for part in text.split(","):
        found = _GROUP.fullmatch(part)
        if found is None:
            raise ValueError(f"{part!r}: a group of nodes is given as KIND:NODESxGPUS")
        kind, nodes, gpus = found.groups()
        groups.append(Group(kind=kind, nodes=int(nodes), gpus=int(gpus)))
    return tuple(groups)


def parse_pools(text: str) -> tuple[Group, ...]:
    """Read `pool:nodesxgpus`, several with commas. Raises ValueError."""
    return tuple(replace(group, kind="", pool=group.kind) for group in parse_groups(text))


def make_nodes(
    groups: Iterable[Group], beside: Mapping[str, int] = MappingProxyType({})
) -> dict[str, NodeInfo]:
    """Return the nodes, named by their kind or pool and in the order of their numbers. Those of a
    pool have its label.

    Args:
        groups: how many, with how many GPUs.
        beside: what each has of other resources.
    """
    others = {name: amount * UNIT for name, amount in beside.items()}
    nodes: dict[str, NodeInfo] = {}
    for group in groups:
        room = {GPU: group.gpus * UNIT} | others
        for number in range(group.nodes):
            name = f"{group.kind or group.pool or 'node'}-{number:04d}"
            nodes[name] = NodeInfo(
                name=name,
                total=room,
                free=room,
                labels={POOL: group.pool} if group.pool else {},
                kind=group.kind,
            )
    return nodes


def gpus(node: NodeInfo) -> int:
    """GPUs of a node."""
    return node.total[GPU] // UNIT
