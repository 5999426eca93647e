"""Usage of nodes by owner, with the sum kept for every node.

A change costs what changes: one of fifteen thousand pods that is added or removed is one addition
or subtraction. Amounts are integers, so sums never drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from di_operator.allocator.model.resources import Resources

Entry = tuple[str, Resources]
"""A node and what is taken of it."""


class Ledger:
    """Entries by their owner's UID, and the sum of all by node.

    Attributes:
        touched: nodes whose sum has changed since the reader of this emptied it.
    """

    def __init__(self) -> None:
        self._entries: dict[str, tuple[Entry, ...]] = {}
        self._sums: dict[str, dict[str, int]] = {}
        self.touched: set[str] = set()

    def put(self, uid: str, entries: Iterable[Entry]) -> None:
        """Replace all that an owner takes by these entries."""
        new = tuple(entries)
        old = self._entries.get(uid, ())
        if new == old:
            return
        self._book(old, -1)
        self._book(new, 1)
        if new:
            self._entries[uid] = new
        else:
            self._entries.pop(uid, None)

    def taken(self, node: str) -> Mapping[str, int]:
        """Return what all owners together take of a node."""
        return self._sums.get(node, {})

    def _book(self, entries: Iterable[Entry], sign: int) -> None:
        for node, amounts in entries:
            self.touched.add(node)
            known = self._sums.setdefault(node, {})
            for name, amount in amounts.items():
                known[name] = known.get(name, 0) + sign * amount
                if not known[name]:
                    del known[name]
            if not known:
                del self._sums[node]
