"""How much memory the largest node has for pods."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from di_api.field_error import mapping
from di_api.quantity import read_quantity
from di_kube.cache import DELETED

Object = Mapping[str, Any]


class LargestNode:
    """Follows the nodes; one that says nothing that can be read has none."""

    def __init__(self) -> None:
        self._memory: dict[str, Decimal] = {}
        self._most: Decimal | None = None
        self._is_stale = False

    def listen(self, kind: str, node: Object) -> None:
        """Take in a change of a node."""
        name = node["metadata"]["name"]
        if kind == DELETED:
            self._memory.pop(name, None)
        else:
            self._memory[name] = _memory_of(node)
        self._is_stale = True

    def memory(self) -> Decimal | None:
        """Bytes; None without a node that has any."""
        # Asked for more often than nodes change, and they come by the thousand.
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
