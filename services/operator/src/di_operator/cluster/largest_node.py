"""The allocatable memory of the largest node, and the names of the nodes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from decimal import Decimal
from typing import Any

from di_api.field_error import mapping
from di_api.quantity import read_quantity
from di_kube.cache import DELETED

Object = Mapping[str, Any]


class LargestNode:
    """Tracks the nodes; a node whose memory cannot be read counts as zero."""

    def __init__(self) -> None:
        self._memory: dict[str, Decimal] = {}
        self._most: Decimal | None = None
        self._is_stale = False

    def listen(self, kind: str, node: Object) -> None:
        """Record a change of a node."""
        name = node["metadata"]["name"]
        if kind == DELETED:
            self._memory.pop(name, None)
        else:
            self._memory[name] = _memory_of(node)
        self._is_stale = True

    @property
    def names(self) -> Container[str]:
        """The names of the nodes, as they are at any time."""
        return self._memory.keys()

    def memory(self) -> Decimal | None:
        """Return the bytes; None if no node has memory."""
        # Computed on demand, because nodes change by the thousand and this is read even more often.
        if self._is_stale:
            self._most = max(self._memory.values(), default=None)
            self._is_stale = False
        return self._most or None


def _memory_of(node: Object) -> Decimal:
    amount = mapping(mapping(node.get("status")).get("allocatable")).get("memory")
    try:
        return read_quantity(amount) if isinstance(amount, str | int | float) else Decimal(0)
    except ValueError:
        return Decimal(0)
